--- Lets the user choose a model by name, has the server download it, and stores the choice.
local config = require('speclsp.config')
local progress = require('speclsp.progress')
local server = require('speclsp.server')

local M = {}

--- Where the choice for a setting is stored.
local FILES = { model = 'preset', edit_model = 'edit_preset' }

---@param setting 'model'|'edit_model'
local function choice_file(setting)
  return vim.fs.joinpath(vim.fn.stdpath('data') --[[@as string]], 'speclsp', FILES[setting])
end

---@param setting 'model'|'edit_model'
---@return string|nil name of the preset that was chosen
local function chosen(setting)
  local file = io.open(choice_file(setting))
  local name = file and file:read('l')
  if file then
    file:close()
  end
  return name ~= '' and name or nil
end

---@param settings table
---@return boolean whether a setting of setup() names a model
local function names(settings, setting)
  return settings[setting] ~= nil and settings[setting] ~= ''
end

---@return boolean whether setup() or a choice names a model, so that none is the trial model
function M.is_named()
  return names(config.options.settings, 'model') or chosen('model') ~= nil
end

--- The settings of setup(), with the chosen presets where they name no model.
---@param settings table
---@return table
function M.with_choice(settings)
  local all = vim.tbl_extend('force', {}, settings)
  for setting in pairs(FILES) do
    if not names(settings, setting) then
      all[setting] = chosen(setting) or all[setting]
    end
  end
  return all
end

---@param preset table one of the server's presets
---@param overview table the server's answer
---@return string
function M.describe(preset, overview)
  local remarks = {}
  if preset.name == overview.recommended then
    remarks[#remarks + 1] = 'recommended'
  end
  if preset.name == overview.current.name then
    remarks[#remarks + 1] = 'in use'
  elseif preset.downloaded then
    remarks[#remarks + 1] = 'downloaded'
  elseif (preset.received_bytes or 0) > 0 then
    local received, size = preset.received_bytes / 1e6, preset.size_bytes / 1e6
    remarks[#remarks + 1] = ('partly downloaded, %.0f of %.0f MB'):format(received, size)
  end
  if not preset.fits then
    remarks[#remarks + 1] = preset.why_not
  end
  local words = #remarks > 0 and (' (%s)'):format(table.concat(remarks, ', ')) or ''
  return ('%s, %.1f GB, %s%s'):format(preset.title, preset.size_bytes / 1e9, preset.licence, words)
end

--- What to know of a preset for next edits, which is loaded beside the model in use.
---@param preset table one of the server's presets
---@param overview table the server's answer
---@return string
function M.describe_for_edits(preset, overview)
  local used = 0
  for _, other in ipairs(overview.presets) do
    used = other.name == overview.current.name and other.size_bytes or used
  end
  local fits = preset.size_bytes < overview.memory.total_bytes - used
  local words = preset.name == overview.current.name and 'in use: it needs no second model'
    or fits and 'fits beside the model in use'
    or 'too large beside the model in use'
  return ('%s, %.1f GB of memory, %s (%s)'):format(preset.title, preset.size_bytes / 1e9, preset.licence, words)
end

--- Show a message; in Insert mode, whose own line would cover it, once that ends.
---@param words string
local function show(words)
  if not vim.startswith(vim.api.nvim_get_mode().mode, 'i') then
    vim.notify(words)
    return
  end
  vim.api.nvim_create_autocmd('InsertLeave', {
    once = true,
    callback = vim.schedule_wrap(function()
      vim.notify(words)
    end),
  })
end

--- Say when a model is ready that was chosen.
---@param title string
local function announce(title)
  local is_loading = false
  server.on_status = function(status)
    if status.state == 'ready' and is_loading or status.state == 'failed' then
      server.on_status = function() end
    end
    if status.state == 'ready' and is_loading then
      show(('speclsp: %s is ready.'):format(title))
    end
    is_loading = is_loading or status.state == 'loading'
  end
end

--- Keep a choice, and let the server take it.
---@param preset table
---@param setting 'model'|'edit_model'
local function keep(preset, setting)
  vim.fn.mkdir(vim.fs.dirname(choice_file(setting)), 'p')
  local file = assert(io.open(choice_file(setting), 'w'))
  file:write(preset.name, '\n')
  file:close()
  server.set({ [setting] = preset.name })
end

---@param preset table
---@param setting 'model'|'edit_model'
local function use(preset, setting)
  local is_named = names(config.options.settings, setting)
  if is_named and setting == 'edit_model' then
    vim.notify(('speclsp: set edit_model = %q in setup(), which names another.'):format(preset.name))
    return
  end
  if is_named then
    server.execute('speclsp.useModel', { { name = preset.name } }, function()
      vim.notify(
        ('speclsp: %s until Neovim ends, since setup() names another by model; '):format(preset.title)
          .. ('set model = %q there to keep it.'):format(preset.name)
      )
    end)
    return
  end
  if setting == 'model' then
    announce(preset.title)
  end
  keep(preset, setting)
end

--- Download a preset where it is missing, and use it.
---@param preset table
---@param in_use string name of the one that is loaded
---@param setting 'model'|'edit_model'
local function take(preset, in_use, setting)
  if preset.name == in_use then
    vim.notify(('speclsp: %s is in use already.'):format(preset.title))
    return
  end
  if not preset.downloaded then
    -- Below the list, which fills the screen, it would wait for Enter, and the download with it.
    vim.schedule(function()
      vim.cmd.redraw()
      vim.notify(('speclsp: downloading %s; :Speclsp model cancel stops it.'):format(preset.title))
    end)
  end
  server.execute('speclsp.pullModel', { { name = preset.name } }, function()
    use(preset, setting)
  end)
end

--- The row of a file of the user's own.
local OWN_FILE = { title = 'A GGUF file of mine…' }

--- Ask for a file, and use it.
---@param setting 'model'|'edit_model'
local function take_file(setting)
  vim.ui.input({ prompt = 'Path of a GGUF file: ', completion = 'file' }, function(given)
    if not given or given == '' then
      return
    end
    local path = vim.fn.fnamemodify(vim.fn.expand(given), ':p')
    if vim.fn.filereadable(path) == 0 then
      vim.notify(('speclsp: there is no file %s.'):format(path), vim.log.levels.ERROR)
      return
    end
    if names(config.options.settings, setting) then
      vim.notify(('speclsp: set %s = %q in setup(), which names another.'):format(setting, path))
      return
    end
    use({ name = path, title = vim.fs.basename(path) }, setting)
  end)
end

--- Let the user choose a model, or one for next edits alone.
---@param for_edits boolean|nil
---@return boolean asked
function M.choose(for_edits)
  return server.execute('speclsp.models', {}, function(overview)
    local memory = overview.memory
    local presets = vim.tbl_filter(function(preset)
      return preset.edits or not for_edits
    end, overview.presets)
    -- What fits first, and the recommended one before all.
    local function rank(preset)
      return preset.name == overview.recommended and 0 or preset.fits and 1 or 2
    end
    local order = {}
    for idx, preset in ipairs(presets) do
      order[preset.name] = 100 * rank(preset) + idx
    end
    table.sort(presets, function(a, b)
      return order[a.name] < order[b.name]
    end)
    presets[#presets + 1] = OWN_FILE
    vim.ui.select(presets, {
      prompt = ('%s, %.0f GB. A model to download and use:'):format(memory.name, memory.total_bytes / 2 ^ 30),
      kind = 'speclsp_model',
      format_item = function(preset)
        if preset == OWN_FILE then
          return preset.title
        end
        return (for_edits and M.describe_for_edits or M.describe)(preset, overview)
      end,
    }, function(preset)
      if preset == OWN_FILE then
        take_file(for_edits and 'edit_model' or 'model')
      elseif preset then
        take(preset, overview.current.name, for_edits and 'edit_model' or 'model')
      end
    end)
  end)
end

--- Stop a download; choosing the model again goes on where it ended.
---@return boolean running whether there is a server
function M.cancel()
  local client, token = server.client(), progress.download()
  if client and token then
    server.notify(client, 'window/workDoneProgress/cancel', { token = token })
    -- Neovim keeps the answer of a cancelled request to itself.
    vim.notify('speclsp: the download is cancelled; choosing the model again goes on where it ended.')
  elseif client then
    vim.notify('speclsp: nothing is being downloaded.')
  end
  return client ~= nil
end

return M
