--- speclsp in Neovim: ghost text from a model on your own machine.  See `:help speclsp`.
local buffers = require('speclsp.buffers')
local config = require('speclsp.config')
local edits = require('speclsp.edits')
local progress = require('speclsp.progress')
local server = require('speclsp.server')
local suggestions = require('speclsp.suggestions')

local M = {}

M.accept = function()
  return suggestions.accept() or edits.accept()
end
M.accept_word = suggestions.accept_word
M.accept_line = suggestions.accept_line
M.next = suggestions.next
M.previous = suggestions.previous
M.dismiss = function()
  return suggestions.dismiss() or edits.decline()
end
M.accept_edit = edits.accept
M.decline_edit = edits.decline
M.ask_for_edit = edits.ask_by_hand
M.edit = edits.words
M.trigger = suggestions.trigger
M.visible = suggestions.visible
M.snooze = suggestions.snooze
M.restart = server.restart
M.stop = server.stop

---@type boolean whether setup() was called
M.is_set_up = false

---@type integer|nil the ghost text's colour as this plugin set it last
local own_colour

--- Make the editor's own ghost text readable, which it draws in ComplHint.
---@param ghost table
local function brighten_hint(ghost)
  local hint = vim.api.nvim_get_hl(0, { name = 'ComplHint' })
  local is_untouched = hint.link == 'NonText' or hint.fg ~= nil and hint.fg == own_colour
  if is_untouched and suggestions.backend() == require('speclsp.native') then
    local like = vim.api.nvim_get_hl(0, { name = 'NonText', link = false })
    local look = { fg = ghost.fg, ctermfg = ghost.ctermfg }
    vim.api.nvim_set_hl(0, 'ComplHint', vim.tbl_extend('force', like, look))
  end
end

local function highlights()
  local like = vim.fn.hlexists('ComplHint') == 1 and 'ComplHint' or 'Comment'
  local ghost = vim.api.nvim_get_hl(0, { name = like, link = false })
  -- Without a colour of its own it would take that of the text before it, a string's for example.
  ghost.ctermfg = ghost.ctermfg or 8
  ghost.fg = ghost.fg or 0x808080
  if (vim.g.colors_name or 'default') == 'default' then
    -- Neovim's own colours give the hint a contrast of 2 to 1 on their background; these give 4.5.
    ghost.fg = vim.o.background == 'dark' and 0x8a8e96 or 0x5f636b
    brighten_hint(ghost)
  end
  -- What the user or a colour scheme has set stays.
  local function shown()
    return vim.api.nvim_get_hl(0, { name = 'SpeclspGhost', link = false }).fg
  end
  ghost.default = own_colour == nil or shown() ~= own_colour
  vim.api.nvim_set_hl(0, 'SpeclspGhost', ghost)
  own_colour = shown() == ghost.fg and ghost.fg or nil
  vim.api.nvim_set_hl(0, 'SpeclspHint', { link = 'NonText', default = true })
  vim.api.nvim_set_hl(0, 'SpeclspAdded', { link = 'DiffAdd', default = true })
  local deleted = vim.api.nvim_get_hl(0, { name = 'DiffDelete', link = false })
  deleted.strikethrough, deleted.default = true, true
  deleted.cterm = { strikethrough = true }
  vim.api.nvim_set_hl(0, 'SpeclspDeleted', deleted)
end

--- Start: the options are those of `:help speclsp-options`.
---@param options table|nil
function M.setup(options)
  if vim.fn.has('nvim-0.10') == 0 then
    vim.notify('speclsp needs Neovim 0.10 or newer.', vim.log.levels.ERROR)
    return
  end
  config.apply(options)
  buffers.enabled = config.options.enabled
  highlights()
  local group = vim.api.nvim_create_augroup('speclsp.highlights', {})
  vim.api.nvim_create_autocmd('ColorScheme', { group = group, callback = highlights })
  vim.api.nvim_create_autocmd('OptionSet', { group = group, pattern = 'background', callback = highlights })
  suggestions.setup()
  edits.setup()
  progress.setup()
  require('speclsp.keys').set(config.options.keys)
  server.start()
  suggestions.refresh()
  M.is_set_up = true
end

--- Switch suggestions off or on.
---@param scope 'global'|'buffer'|'filetype'|nil
---@return boolean enabled
function M.toggle(scope)
  local enabled = buffers.toggle(scope or 'global')
  suggestions.refresh()
  vim.api.nvim_exec_autocmds('User', { pattern = 'SpeclspStatus', modeline = false })
  return enabled
end

---@param bufnr integer|nil
---@return boolean whether suggestions come in a buffer
function M.is_enabled(bufnr)
  return buffers.suggests(bufnr or vim.api.nvim_get_current_buf())
end

--- The server's state, for a status line of your own.
---@return speclsp.Status
function M.status()
  return vim.deepcopy(server.status)
end

--- A short text for the status line; the event `User SpeclspStatus` announces changes.
---@return string
function M.statusline()
  if not M.is_enabled() then
    return 'speclsp off'
  end
  local status = server.status
  if suggestions.is_snoozing() then
    return 'speclsp snoozing until ' .. os.date('%H:%M', status.snoozed_until)
  end
  local words = ({ unloaded = 'asleep', missing = 'not installed' })[status.state] or status.state
  local model = status.model and (status.model.is_trial and 'trial model' or status.model.title)
  local latest = status.why_nothing or status.latency_ms and ('%d ms'):format(status.latency_ms)
  if status.state == 'ready' and latest then
    words = ('%s%s'):format(model and model .. ', ' or '', latest)
  elseif model then
    words = ('%s, %s'):format(words, model)
  end
  local edit = edits.visible() and ', next edit' or ''
  return 'speclsp ' .. words .. edit .. (status.download and ', downloading ' .. status.download or '')
end

return M
