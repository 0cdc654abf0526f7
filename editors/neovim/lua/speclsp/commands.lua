--- `:Speclsp` and its subcommands.
local server = require('speclsp.server')

local M = {}

--- Show lines in a window of their own, which takes the cursor in Normal mode alone: an answer may come
--- while the user types on.
---@param title string
---@param lines string[]
---@return integer win
local function scratch(title, lines)
  local bufnr = vim.api.nvim_create_buf(false, true)
  vim.bo[bufnr].bufhidden = 'wipe'
  pcall(vim.api.nvim_buf_set_name, bufnr, 'speclsp://' .. title)
  vim.api.nvim_buf_set_lines(bufnr, 0, -1, false, lines)
  vim.bo[bufnr].modifiable = false
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = bufnr, desc = 'close' })
  local enters = vim.api.nvim_get_mode().mode == 'n'
  return vim.api.nvim_open_win(bufnr, enters, { split = 'below', win = -1 })
end

local function per_cent(part, whole)
  return whole > 0 and ('%.0f %%'):format(100 * part / whole) or 'none yet'
end

--- The statistics as a page: what users ask first, and then what the engine did.
---@param stats table the server's SessionStats
---@return string[]
function M.statistics_lines(stats)
  local totals = stats.totals
  local answer = stats.latency.answer
  local n_shown, n_accepted = stats.n_shown, stats.n_accepted_items + stats.n_partially_accepted
  local engine = stats.latency.total
  local lines = {
    ('accepted                    %d of %d (%s)'):format(n_accepted, n_shown, per_cent(n_accepted, n_shown)),
    ('accepted in part            %d'):format(stats.n_partially_accepted),
    ('characters accepted         %d of %d shown; %d typed over'):format(
      stats.n_chars_accepted,
      stats.n_chars_shown,
      stats.n_chars_typed_over
    ),
    'latency, median             '
      .. (answer and ('%.0f ms; %.0f ms for 95 of 100'):format(answer.p50, answer.p95) or 'none yet'),
    ('model                       %s'):format(stats.model ~= '' and stats.model or 'none'),
    ('state                       %s'):format(stats.state),
    '',
    'All since the server of this Neovim started.',
    'Details (:help speclsp-statistics)',
    '',
    ('requests                    %d, %d with text, %d cancelled, %d failed'):format(
      stats.n_requests,
      stats.n_completions,
      stats.n_cancelled,
      stats.n_failed
    ),
    ('answered without the model  %d'):format(stats.n_memory),
    'time in the engine, median  ' .. (engine and ('%.0f ms'):format(engine.p50) or 'none yet'),
    ('tokens per pass             %.2f'):format(
      totals.n_target_passes > 0 and totals.n_predicted / totals.n_target_passes or 0
    ),
    ('prompt reused               %s'):format(per_cent(totals.n_prompt - totals.n_prompt_evaluated, totals.n_prompt)),
    ('index                       %d files, %d tokens%s'):format(
      stats.index.n_files,
      stats.index.n_tokens,
      stats.index.building and ', still growing' or ''
    ),
  }
  local names = vim.tbl_keys(totals.drafters)
  table.sort(names)
  for _, name in ipairs(names) do
    local drafter = totals.drafters[name]
    if drafter.n_drafted > 0 then
      lines[#lines + 1] = ('drafts accepted             %s: %s of %d tokens'):format(
        name,
        per_cent(drafter.n_accepted, drafter.n_drafted),
        drafter.n_drafted
      )
    end
  end
  return lines
end

---@type table<string, string> why there is no server, and what to do, by state
local WITHOUT_SERVER = {
  missing = server.NOT_INSTALLED,
  installing = 'the server is being installed',
  starting = 'the server is not ready yet; it starts with the first file that you open',
}

---@return string
local function why_not_running()
  local why = 'the server is not running; :Speclsp restart starts it, :checkhealth speclsp says more'
  return 'speclsp: ' .. (WITHOUT_SERVER[server.status.state] or why)
end

local function not_running()
  vim.notify(why_not_running() .. '.', vim.log.levels.WARN)
end

local subcommands = {}

--- What a user of the current buffer should know of its suggestions.
---@return string
local function suggesting()
  if not require('speclsp').is_enabled() then
    return 'suggestions are off in this buffer'
  end
  local suggestions = require('speclsp.suggestions')
  if suggestions.is_snoozing() then
    return 'suggestions are snoozed until ' .. os.date('%H:%M', server.status.snoozed_until)
  end
  return 'suggestions are on in this buffer'
end

function subcommands.status()
  local status = server.status
  local message = status.message
  local lines = {}
  if server.client() then
    local latency = status.latency_ms and (', latest suggestion in %d ms'):format(status.latency_ms) or ''
    local why = status.why_nothing and ', latest answer withheld: ' .. status.why_nothing or ''
    lines[1] = ('speclsp: server %s%s%s; %s'):format(status.state, latency, why, suggesting())
    if status.model and status.model.is_trial then
      message = message .. '; :Speclsp model lists those that fit'
    end
  else
    lines[1] = why_not_running()
    message = message ~= server.NOT_INSTALLED and message or ''
  end
  if message ~= '' then
    lines[#lines + 1] = message
  end
  if status.download then
    lines[#lines + 1] = ('downloading a model: %s; :Speclsp model cancel stops it'):format(status.download)
  end
  if not server.root_of(vim.api.nvim_get_current_buf()) then
    lines[#lines + 1] = server.NO_PROJECT
  end
  vim.notify(table.concat(lines, '\n'))
end

function subcommands.stats()
  local asked = server.statistics(function(stats)
    scratch('statistics', M.statistics_lines(stats))
  end)
  if not asked then
    not_running()
  end
end

--- Show the suggestion at the cursor of the file, which is written first, or why there is none.
function subcommands.explain()
  local client, file = server.client(), vim.api.nvim_buf_get_name(0)
  if not client then
    return not_running()
  elseif vim.bo.buftype ~= '' or file == '' then
    vim.notify('speclsp explains suggestions in files: open one, and put the cursor where none came.')
    return
  end
  if vim.bo.modified then
    local written, problem = pcall(vim.cmd, 'write')
    if not written then
      vim.notify('speclsp: the file is not written: ' .. problem:gsub('^.-(E%d+: )', '%1'), vim.log.levels.ERROR)
      return
    end
  end
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  local before = vim.api.nvim_get_current_line():sub(1, column)
  local place = ('%s:%d:%d'):format(file, row, vim.fn.strchars(before) + 1)
  local args = vim.list_extend({ client.config.cmd[1], 'explain', place }, server.setting_options())
  vim.notify('speclsp: explaining the suggestion; the model is loaded for it')
  vim.system(args, { text = true }, function(done)
    vim.schedule(function()
      local lines = vim.split(vim.trim(done.stdout .. done.stderr), '\n')
      scratch('explanation', vim.list_extend({ table.concat(args, ' '), '' }, lines))
    end)
  end)
end

function subcommands.log()
  local win = scratch('log', server.log)
  vim.api.nvim_win_set_cursor(win, { math.max(1, #server.log), 0 })
end

function subcommands.restart()
  local cmd, problem = server.command()
  if not cmd then
    vim.notify('speclsp: ' .. problem .. '.', vim.log.levels.WARN)
    return
  end
  vim.notify('speclsp: restarting the server')
  server.restart()
end

function subcommands.install()
  server.install()
end

function subcommands.toggle(scope)
  local enabled = require('speclsp').toggle(scope)
  local where = { buffer = 'in this buffer', filetype = ('for the file type %q'):format(vim.bo.filetype) }
  vim.notify(('speclsp: suggestions are %s %s'):format(enabled and 'on' or 'off', where[scope] or 'everywhere'))
end

function subcommands.reindex()
  local asked = server.execute('speclsp.reindex', nil, function()
    vim.notify("speclsp: reading the project's files again; :Speclsp stats shows the index")
  end)
  if not asked then
    not_running()
  end
end

function subcommands.snooze(argument)
  local minutes = tonumber(argument or 15)
  if not minutes or not (minutes >= 0 and minutes <= 1440) then
    vim.notify(
      ('speclsp: snooze takes a number of minutes, such as 15, to 1440; 0 ends it. %q is none.'):format(argument),
      vim.log.levels.ERROR
    )
    return
  end
  local asked = require('speclsp').snooze(minutes, function()
    local until_when = os.date('%H:%M', os.time() + math.floor(60 * minutes))
    vim.notify(minutes > 0 and 'speclsp: snoozing until ' .. until_when or 'speclsp: awake again')
  end)
  if not asked then
    not_running()
  end
end

function subcommands.edit(action)
  local speclsp = require('speclsp')
  if not server.client() then
    not_running()
  elseif action then
    local is_done = action == 'accept' and speclsp.accept_edit() or action == 'decline' and speclsp.decline_edit()
    if not is_done then
      vim.notify('speclsp: no next edit is shown; :Speclsp edit asks for one.')
    end
  elseif speclsp.edit() then
    vim.notify('speclsp: next edit, ' .. speclsp.edit())
  else
    speclsp.ask_for_edit()
  end
end

function subcommands.model(action)
  local models = require('speclsp.models')
  local done
  if action == 'cancel' then
    done = models.cancel()
  else
    done = models.choose(action == 'edits')
  end
  if not done then
    not_running()
  end
end

---@type table<string, string[]> what a subcommand takes
local arguments = {
  toggle = { 'global', 'buffer', 'filetype' },
  snooze = { '5', '15', '60', '0' },
  edit = { 'accept', 'decline' },
  model = { 'edits', 'cancel' },
}

---@param words string[]
function M.run(words)
  local name, argument = words[1] or 'status', words[2]
  local is_wrong = not subcommands[name]
    or #words > 2
    or argument and name ~= 'snooze' and not vim.tbl_contains(arguments[name] or {}, argument)
  if is_wrong then
    local known = {}
    for each in pairs(subcommands) do
      local takes = arguments[each] and (' [%s]'):format(table.concat(arguments[each], '|')) or ''
      known[#known + 1] = each .. takes
    end
    table.sort(known)
    vim.notify(
      ('speclsp: no command %q; there are %s.'):format(table.concat(words, ' '), table.concat(known, ', ')),
      vim.log.levels.ERROR
    )
    return
  end
  subcommands[name](argument)
end

---@param lead string
---@param line string
---@return string[]
function M.complete(lead, line)
  local words = vim.split(vim.trim(line), '%s+')
  local choices = vim.tbl_keys(subcommands)
  if arguments[words[2]] and (#words > 2 or line:match('%s$')) then
    choices = vim.list_extend({}, arguments[words[2]])
  elseif #words > 2 or (#words == 2 and line:match('%s$')) then
    choices = {}
  end
  table.sort(choices)
  return vim.tbl_filter(function(choice)
    return vim.startswith(choice, lead)
  end, choices)
end

return M
