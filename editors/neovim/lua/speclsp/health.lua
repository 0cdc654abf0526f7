--- `:checkhealth speclsp`: what is missing, and what to do about it.
local M = {}

local health = vim.health

local DOCTOR_MS = 60000
--- The exit status that vim.system gives what it ended.
local TIMED_OUT = 124

local function check_editor()
  health.start('Editor')
  if vim.fn.has('nvim-0.10') == 0 then
    health.error('Neovim 0.10 or newer is needed', 'Install a newer Neovim')
  elseif vim.fn.has('nvim-0.12') == 1 then
    health.ok('Neovim ' .. tostring(vim.version()) .. ' shows inline completion itself')
    pcall(require, 'vim.lsp.inline_completion') -- which registers what is looked for
    local ok, capability = pcall(require, 'vim.lsp._capability')
    if not ok or type(capability.all) ~= 'table' or not capability.all.inline_completion then
      health.warn('This Neovim cannot be asked at once: suggestions come 200 ms late', "backend = 'own' in setup()")
    end
  else
    health.ok('Neovim ' .. tostring(vim.version()) .. ': the plugin shows the ghost text')
  end
end

local function check_setup()
  health.start('Set-up')
  local speclsp = require('speclsp')
  if not speclsp.is_set_up then
    health.error('setup() has not been called', 'Call require("speclsp").setup({}) in your configuration')
    return
  end
  health.ok('setup() was called')
  local config = require('speclsp.config')
  local lost = require('speclsp.keys').taken()
  if #lost > 0 then
    health.warn('Other mappings have these keys: ' .. table.concat(lost, ', '), 'Choose others, see :help speclsp-keys')
  else
    health.ok('Keys: accept ' .. tostring(config.options.keys.accept))
  end
  local decline = config.options.keys.decline
  local gone = 'Next edits are left out (next_edits = false)'
  health.info(config.options.next_edits and 'Next edits: decline ' .. tostring(decline) .. ' in Normal mode' or gone)
  if not require('speclsp.buffers').enabled then
    health.warn('Suggestions are switched off', ':Speclsp toggle')
  end
end

local function check_server()
  health.start('Server')
  local server = require('speclsp.server')
  local cmd, problem = server.command()
  if not cmd then
    health.error(problem or '', {
      ':Speclsp install, which installs it into an environment of its own',
      'or pip install speclsp, and cmd = "/path/to/speclsp" in setup() where it is not on PATH',
    })
    return
  end
  local ran, result = pcall(function()
    return vim.system({ cmd[1], '--version' }, { text = true, timeout = 10000 }):wait()
  end)
  if not ran or result.code ~= 0 then
    local reason = ran and vim.trim(result.stderr or '') or tostring(result)
    health.error(cmd[1] .. ' does not start: ' .. reason, 'Install speclsp again; run it in a terminal')
    return
  end
  health.ok(cmd[1] .. ': ' .. vim.trim(result.stdout or ''))
  local status = server.status
  if not server.client() then
    health.warn('It is not running (' .. status.state .. ' ' .. status.message .. ')', {
      'Open a file: it starts with the first one',
      ':Speclsp restart, then :Speclsp log',
    })
  elseif status.state == 'failed' or status.state == 'off' then
    health.error('The engine is ' .. status.state .. ': ' .. status.message, ':Speclsp log')
  else
    local message = status.message ~= '' and ': ' .. status.message or ''
    health.ok(('It runs; the engine is %s%s'):format(status.state, message))
  end
  local previous = vim.fn.bufnr('#') -- the page is a buffer of its own
  if vim.api.nvim_buf_is_valid(previous) and not server.root_of(previous) then
    health.warn((server.NO_PROJECT:gsub('^speclsp: ', '')))
  end
  local model = status.model
  if model and model.shortfall ~= '' then
    health.warn(model.shortfall)
  end
  if model and model.is_trial then
    health.warn('The small trial model is in use', ':Speclsp model lists what fits this computer')
  end
  local command = vim.list_extend({ cmd[1], 'doctor' }, server.setting_options())
  local doctor = vim.system(command, { text = true, timeout = DOCTOR_MS }):wait()
  if doctor.code == TIMED_OUT then
    local late = ('speclsp doctor did not end within %d seconds'):format(DOCTOR_MS / 1000)
    -- Without the options, since an address may hold a key.
    health.warn(late, ('Run it in a terminal: %s doctor'):format(cmd[1]))
  end
  for _, line in ipairs(vim.split(vim.trim(doctor.stdout or ''), '\n')) do
    if vim.startswith(line, 'problem') then
      health.error((line:gsub('^problem%s*', '')))
    elseif vim.startswith(line, 'ok') then
      health.info((line:gsub('^ok%s*', '')))
    elseif line ~= '' then
      health.info(vim.trim(line))
    end
  end
end

function M.check()
  check_editor()
  check_setup()
  check_server()
end

return M
