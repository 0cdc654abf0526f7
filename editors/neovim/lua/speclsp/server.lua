--- Finds the server, runs one process for all folders, and restarts it when it dies.
local buffers = require('speclsp.buffers')
local config = require('speclsp.config')
local install = require('speclsp.install')
local text = require('speclsp.text')

local M = {}

local NAME = 'speclsp'
local INLINE = 'textDocument/inlineCompletion'
local MAX_LOG_LINES = 2000
local BACK_OFF_MS = 500
local STEADY_MS = 60000
local STOP_POLL_MS = 50
local MAX_STOP_POLLS = 100
local LATENCY_EVERY_MS = 1000

---@class speclsp.Status
---@field state string 'missing', 'installing', 'stopped', 'starting', or what the server says: loading, ready,
---  unloaded, off, failed
---@field message string
---@field model table|nil `{ title, layers, is_trial, shortfall }`, see docs/lsp.md
---@field snoozed_until number|nil seconds since 1970
---@field download string|nil how far the download of a model is
---@field latency_ms number|nil of the latest suggestion, as the statistics have it
---@field why_nothing string|nil why the model's latest answer was not shown
M.status = { state = 'stopped', message = '', latency_ms = nil }

---@type string[]
M.log = {}
---@type fun(client: vim.lsp.Client, bufnr: integer)[]
M.on_attach = {}
---@type fun(client: vim.lsp.Client, bufnr: integer, items: table[])
M.on_answer = {}
---@type fun()[] called when the engine is ready, and was not before, or asks to be asked again
M.on_ready = {}
---@type fun(status: speclsp.Status)
M.on_status = function() end

local n_deaths = 0
local stopping = false
---@type integer|nil
local started_at
---@type string|nil of the model that was loaded last
local model_title
---@type uv_timer_t|nil of the latest restart
local restarting
---@type integer|nil the buffer without a name that takes part
local unnamed

local function now_ms()
  return vim.uv.hrtime() / 1e6
end

local function changed()
  vim.api.nvim_exec_autocmds('User', { pattern = 'SpeclspStatus', modeline = false })
end

local function note(line)
  for _, part in ipairs(vim.split(line, '\n', { plain = true })) do
    M.log[#M.log + 1] = part
  end
  while #M.log > MAX_LOG_LINES do
    table.remove(M.log, 1)
  end
end

M.NOT_INSTALLED = 'the server is not installed; :Speclsp install installs it'

--- The command that starts the server.
---@return string[]|nil command
---@return string|nil problem
function M.command()
  local given = config.options.cmd
  if given == nil then
    given = vim.fn.executable('speclsp') == 1 and 'speclsp' or install.server()
    if not given then
      return nil, M.NOT_INSTALLED
    end
  end
  local cmd = type(given) == 'string' and { given, 'serve', '--stdio' } or given
  if #cmd == 0 or vim.fn.executable(cmd[1]) == 0 then
    return nil, ('%s is not an executable; see cmd in :help speclsp-options'):format(tostring(cmd[1]))
  end
  return cmd
end

---@return vim.lsp.Client|nil
function M.client()
  return vim.lsp.get_clients({ name = NAME })[1]
end

---@return vim.lsp.Client[] with those that have not answered `initialize`
local function all_clients()
  return vim.lsp.get_clients({ name = NAME, _uninitialized = true })
end

---@param bufnr integer
---@return vim.lsp.Client|nil
function M.client_of(bufnr)
  return vim.lsp.get_clients({ name = NAME, bufnr = bufnr })[1]
end

-- 0.10 has these as functions, 0.11 and later as methods.
local is_method = vim.fn.has('nvim-0.11') == 1

---@param client vim.lsp.Client
---@param handler fun(err: table|nil, result: any)
---@return integer|nil request_id
function M.request(client, method, params, handler, bufnr)
  local ok, id
  if is_method then
    ok, id = client:request(method, params, handler, bufnr)
  else
    ok, id = client.request(method, params, handler, bufnr)
  end
  return ok and id or nil
end

---@param client vim.lsp.Client
function M.notify(client, method, params)
  if is_method then
    client:notify(method, params)
  else
    client.notify(method, params)
  end
end

---@param client vim.lsp.Client
---@param id integer a request's
function M.cancel(client, id)
  if is_method then
    client:cancel_request(id)
  else
    client.cancel_request(id)
  end
end

--- Run a command of the server.
---@param command string
---@param arguments any[]|nil
---@param done fun(result: any)|nil not called where the command fails
---@return boolean asked
function M.execute(command, arguments, done)
  local client = M.client()
  if not client then
    return false
  end
  M.request(client, 'workspace/executeCommand', { command = command, arguments = arguments }, function(err, result)
    if err then
      vim.notify('speclsp: ' .. err.message, vim.log.levels.ERROR)
    elseif done then
      done(result)
    end
  end)
  return true
end

--- Change settings of the running server; those of setup() stay as they are.
---@param settings table
function M.set(settings)
  local client = M.client()
  if client then
    local all = vim.tbl_extend('force', client.settings.speclsp, settings)
    client.settings = { speclsp = all } -- what workspace/configuration is answered from
    M.notify(client, 'workspace/didChangeConfiguration', { settings = { speclsp = all } })
  end
end

--- The settings as options of a command in a terminal; those of setup() where no server runs.
---@return string[]
function M.setting_options()
  local client = M.client()
  local settings = client and client.settings.speclsp
    or require('speclsp.models').with_choice(config.options.settings)
  local options = {}
  for name, value in vim.spairs(settings) do
    if type(value) == 'number' or type(value) == 'string' and value ~= '' then
      vim.list_extend(options, { '--' .. name:gsub('_', '-'), tostring(value) })
    end
  end
  return options
end

--- Ask for the statistics, which writes no log.
---@param done fun(statistics: table)
---@return boolean asked
function M.statistics(done)
  local client = M.client()
  if not client then
    return false
  end
  M.request(client, 'speclsp/statistics', vim.empty_dict(), function(err, result)
    if not err then
      done(result)
    end
  end)
  return true
end

M.NO_PROJECT = 'speclsp: this file is in no project, so drafts come from open files alone; '
  .. 'open Neovim in its folder, or see root_markers in :help speclsp-options'

---@param folder string
---@return boolean whether it is a home folder or above it
local function is_wide(folder)
  return vim.startswith(vim.fs.normalize('~') .. '/', folder == '/' and folder or folder .. '/')
end

--- The project of a buffer: the folder with a root marker, else the working folder.
--- A home folder and what is above it are no projects, lest everything be indexed.
---@param bufnr integer
---@return string|nil
function M.root_of(bufnr)
  local root = vim.fs.root(bufnr, config.options.root_markers)
  if root and not is_wide(root) then
    return root
  end
  local cwd = vim.fs.normalize(vim.uv.cwd() or '/')
  local file = vim.fs.normalize(vim.api.nvim_buf_get_name(bufnr))
  local is_inside = file == '' or vim.startswith(file, cwd .. '/')
  return is_inside and not is_wide(cwd) and cwd or nil
end

--- Add a buffer's folder to the one server, which holds the model for all folders.
local function add_folder(client, bufnr)
  local root = M.root_of(bufnr)
  if not root then
    return
  end
  local uri = vim.uri_from_fname(root)
  client.workspace_folders = client.workspace_folders or {}
  for _, folder in ipairs(client.workspace_folders) do
    if folder.uri == uri then
      return
    end
  end
  local folder = { uri = uri, name = root }
  table.insert(client.workspace_folders, folder)
  M.notify(client, 'workspace/didChangeWorkspaceFolders', { event = { added = { folder }, removed = {} } })
end

local is_latency_due = false

--- Ask for the time of the latest suggestion, or why there is none, at most once a second.
local function fetch_latency()
  if is_latency_due then
    return
  end
  is_latency_due = true
  vim.defer_fn(function()
    is_latency_due = false
    M.statistics(function(stats)
      local latest = stats.answer_ms or {}
      M.status.latency_ms = latest[#latest]
      M.status.why_nothing = stats.why_nothing ~= '' and stats.why_nothing or nil
      changed()
    end)
  end, LATENCY_EVERY_MS)
end

--- See each answer, remove CRs, which Neovim's lines do not hold, and note how many bytes its line had
--- behind what an item replaces: typing before them does not change that.
local function watch_requests(client)
  local request = client.request
  local function watched(method, params, handler, bufnr, call)
    if method ~= INLINE or not handler then
      return call(method, params, handler, bufnr)
    end
    local at = params.position
    local line = vim.api.nvim_buf_get_lines(bufnr or 0, at.line, at.line + 1, false)[1] or ''
    return call(method, params, function(err, result, ctx, ...)
      local items = type(result) == 'table' and (result.items or result) or {}
      for _, item in ipairs(items) do
        if type(item.insertText) == 'string' then
          item.speclspText, item.insertText = item.insertText, text.without_cr(item.insertText)
          local stop = item.range and item.range['end'] or at
          item.speclspBehind = #line - text.byte_column(line, stop.character, client.offset_encoding)
        end
      end
      handler(err, result, ctx, ...)
      if not err then
        for _, answered in ipairs(M.on_answer) do
          answered(client, bufnr, items)
        end
        fetch_latency()
      end
    end, bufnr)
  end
  if is_method then
    client.request = function(self, method, params, handler, bufnr)
      return watched(method, params, handler, bufnr, function(...)
        return request(self, ...)
      end)
    end
  else
    client.request = function(method, params, handler, bufnr)
      return watched(method, params, handler, bufnr, request)
    end
  end
end

local function on_exit(code, signal)
  vim.schedule(function()
    M.status.state = 'stopped'
    M.status.message = ('exit status %d, signal %d'):format(code, signal)
    M.status.model, M.status.snoozed_until, M.status.download = nil, nil, nil
    M.status.latency_ms, M.status.why_nothing = nil, nil
    note('The server ended: ' .. M.status.message)
    changed()
    -- One that ended well was told to, by `:lsp stop` for example.
    if stopping or code == 0 and signal == 0 or vim.v.exiting ~= vim.NIL then
      return
    end
    if started_at and now_ms() - started_at > STEADY_MS then
      n_deaths = 0
    end
    started_at = nil -- or a server that dies before it answers would count as one that ran
    n_deaths = n_deaths + 1
    if n_deaths > config.options.max_restarts then
      vim.notify(
        ('speclsp: the server ended %d times in a row (%s). See :Speclsp log; :Speclsp restart tries again.'):format(
          n_deaths,
          M.status.message
        ),
        vim.log.levels.ERROR
      )
      return
    end
    vim.defer_fn(function()
      if not stopping and not M.client() then
        M.start()
      end
    end, BACK_OFF_MS * 2 ^ (n_deaths - 1))
  end)
end

---@return table
local function wanted_settings()
  local settings = require('speclsp.models').with_choice(config.options.settings)
  return vim.tbl_isempty(settings) and vim.empty_dict() or settings -- `{}` would go out as a list
end

---@return table
local function client_config(cmd)
  local settings = wanted_settings()
  return {
    name = NAME,
    cmd = cmd,
    settings = { speclsp = settings },
    -- This plugin draws the suggestions; as items of a popup they would be there twice.
    init_options = vim.tbl_extend('keep', settings, {
      completion_items = 'never',
      explainsNextEdits = true,
      opensNextEdits = true,
    }),
    handlers = {
      ['$/speclsp/status'] = function(_, params)
        local was_ready = M.status.state == 'ready'
        M.status.state, M.status.message = params.state, params.message or ''
        M.status.model, M.status.snoozed_until = params.model, params.snoozed_until
        local title = params.model and params.model.title or model_title
        if params.state == 'loading' or title ~= model_title then -- they were the former engine's
          M.status.latency_ms, M.status.why_nothing = nil, nil
        end
        model_title = title
        changed()
        M.on_status(M.status)
        if M.status.state == 'ready' and (not was_ready or params.ask_again) then
          for _, ready in ipairs(M.on_ready) do
            ready()
          end
        end
      end,
      ['window/logMessage'] = function(_, params)
        note(params.message)
      end,
    },
    on_init = function(client)
      started_at = now_ms()
      M.status.state, M.status.message = 'loading', ''
      watch_requests(client)
      changed()
      vim.schedule(function()
        if not stopping and not vim.deep_equal(settings, wanted_settings()) then
          M.restart() -- setup() was called again between
        end
      end)
      local version = (client.server_info or {}).version
      if cmd[1] == install.server() and install.is_older(version) then
        vim.notify_once(
          ('speclsp: the server %s is older than the plugin; :Speclsp install updates it.'):format(version),
          vim.log.levels.WARN
        )
      end
    end,
    on_attach = function(client, bufnr)
      add_folder(client, bufnr)
      for _, attached in ipairs(M.on_attach) do
        attached(client, bufnr)
      end
    end,
    on_exit = on_exit,
  }
end

local function is_ours(client)
  return client.name == NAME and not (is_method and client:is_stopped() or not is_method and client.is_stopped())
end

local function takes_part(bufnr)
  if not buffers.is_text(bufnr) or vim.bo[bufnr].filetype == '' then
    return false
  end
  -- Buffers without a name have one URI: the server would take two of them for one document.
  if vim.api.nvim_buf_get_name(bufnr) == '' then
    if not unnamed or not buffers.is_text(unnamed) or vim.api.nvim_buf_get_name(unnamed) ~= '' then
      unnamed = bufnr
    end
    return unnamed == bufnr
  end
  return true
end

local function attach_all()
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    M.attach(bufnr)
  end
end

--- What vim.lsp.enable does from 0.11 on, and at no new name.
---@param bufnr integer
function M.attach(bufnr)
  if not takes_part(bufnr) or M.client_of(bufnr) then
    return
  end
  local cmd = M.command()
  if cmd then
    local wanted = client_config(cmd)
    wanted.root_dir = M.root_of(bufnr)
    vim.lsp.start(wanted, { bufnr = bufnr, reuse_client = is_ours, silent = true })
  end
end

--- Take each buffer by its new name; the editor itself tells a server of it when the buffer is written.
local function follow_names()
  vim.api.nvim_create_autocmd('BufFilePre', {
    group = vim.api.nvim_create_augroup('speclsp.names', {}),
    callback = function(event)
      local client = M.client_of(event.buf)
      if client then
        vim.lsp.buf_detach_client(event.buf, client.id)
      end
      vim.schedule(function() -- BufFilePost does not come where another buffer has the name
        if not stopping and #all_clients() > 0 then
          M.attach(event.buf)
        end
      end)
    end,
  })
end

--- Start the server, for the buffers that are open and those to come; one that runs is started again
--- where setup() was called with other settings.
function M.start()
  local cmd, problem = M.command()
  if not cmd then
    local is_missing = problem == M.NOT_INSTALLED
    M.status.state, M.status.message = is_missing and 'missing' or 'stopped', problem or ''
    vim.notify_once('speclsp: ' .. problem .. '.', vim.log.levels.WARN)
    changed()
    return
  end
  local wanted, running = client_config(cmd), not stopping and all_clients()[1]
  if restarting and not restarting:is_closing() then
    return -- it starts with these settings
  elseif running then
    local is_same = vim.deep_equal(running.config.init_options, wanted.init_options)
    if not is_same or not vim.deep_equal(running.config.cmd, cmd) then
      M.restart()
    end
    return
  end
  stopping = false
  follow_names()
  M.status.state, M.status.message = 'starting', ''
  changed()
  if is_method then
    wanted.reuse_client = is_ours
    wanted.root_dir = function(bufnr, start)
      if takes_part(bufnr) then
        start(M.root_of(bufnr))
      end
    end
    vim.lsp.config(NAME, wanted)
    vim.lsp.enable(NAME)
    if vim.v.vim_did_enter == 0 then
      -- A buffer whose file type was found before this is looked at only by a later call.
      vim.api.nvim_create_autocmd('VimEnter', {
        once = true,
        callback = function()
          if not M.client() then
            vim.lsp.enable(NAME)
          end
        end,
      })
    end
  else
    vim.api.nvim_create_autocmd('FileType', {
      group = vim.api.nvim_create_augroup('speclsp.attach', {}),
      callback = function(event)
        M.attach(event.buf)
      end,
    })
    attach_all()
  end
end

---@param force boolean end the process, where it does not answer
local function stop_clients(force)
  for _, client in ipairs(all_clients()) do
    if is_method then
      client:stop(force)
    else
      client.stop(force)
    end
  end
end

--- Stop the server, which first writes its statistics to the log.
function M.stop()
  stopping = true
  n_deaths = 0
  if restarting and not restarting:is_closing() then
    restarting:close()
  end
  if is_method then
    vim.lsp.enable(NAME, false)
  else
    pcall(vim.api.nvim_del_augroup_by_name, 'speclsp.attach')
  end
  stop_clients(false)
end

--- Install the server, or update it, and start it.
function M.install()
  local function heard(output)
    note(output)
    if M.status.state == 'installing' then
      M.status.message = vim.fn.strcharpart(output:match('[^\n]*$'), 0, 80) -- the latest line
      changed()
    end
  end
  local has_begun = install.start(heard, function(failure)
    if not failure then
      local named = require('speclsp.models').is_named()
      vim.notify('speclsp: the server is installed' .. (named and '.' or '; :Speclsp model chooses a better model.'))
      M.restart()
      return
    end
    vim.notify('speclsp: ' .. failure .. '.', vim.log.levels.ERROR)
    if not M.client() then
      M.status.state, M.status.message = M.command() and 'stopped' or 'missing', failure
      changed()
    end
  end)
  if has_begun and not M.client() then
    M.status.state, M.status.message = 'installing', ''
    changed()
  end
end

--- Stop the server and start it again; one that does not answer is killed.
function M.restart()
  M.stop()
  local timer = assert(vim.uv.new_timer())
  restarting = timer
  local n_polls = 0
  timer:start(STOP_POLL_MS, STOP_POLL_MS, vim.schedule_wrap(function()
    n_polls = n_polls + 1
    if timer:is_closing() then
      return
    elseif #all_clients() > 0 and n_polls < MAX_STOP_POLLS then
      if n_polls == MAX_STOP_POLLS / 2 then
        stop_clients(true)
      end
      return
    end
    timer:close()
    M.start()
  end))
end

return M
