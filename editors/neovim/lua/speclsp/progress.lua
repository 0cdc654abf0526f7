--- Shows how far an installation, a download or the loading of a model is: a line in a corner, in every mode.
local server = require('speclsp.server')

local M = {}

--- Shorter work is not shown: the line would only flash up.
M.after_ms = 1000

---@class speclsp.Work
---@field title string
---@field words string
---@field is_shown boolean

---@type table<string, speclsp.Work> by progress token
local running = {}
---@type integer|nil
local win
---@type integer|nil that of all windows
local bufnr

local function hide()
  if win then
    pcall(vim.api.nvim_win_close, win, true)
    win = nil
  end
end

--- Where the line covers neither the cursor's line nor those near it.
---@param words string
---@return table config of a window
local function place(words)
  local has_tabs = vim.o.showtabline > (#vim.api.nvim_list_tabpages() > 1 and 0 or 1)
  local is_low = vim.api.nvim_win_get_position(0)[1] + vim.fn.winline() > vim.o.lines / 2
  return {
    relative = 'editor',
    anchor = is_low and 'NE' or 'SE',
    row = is_low and (has_tabs and 1 or 0) or vim.o.lines - vim.o.cmdheight - 1,
    col = vim.o.columns,
    width = math.min(vim.fn.strdisplaywidth(words), vim.o.columns),
    height = 1,
    style = 'minimal',
    focusable = false,
  }
end

---@param words string
local function show(words)
  if win and not vim.tbl_contains(vim.api.nvim_tabpage_list_wins(0), win) then
    hide() -- it is in another tab page, or was closed
  end
  if win then
    vim.api.nvim_win_set_config(win, place(words))
  else
    if not bufnr or not vim.api.nvim_buf_is_valid(bufnr) then
      bufnr = vim.api.nvim_create_buf(false, true)
    end
    win = vim.api.nvim_open_win(bufnr, false, vim.tbl_extend('error', place(words), { noautocmd = true }))
  end
  vim.api.nvim_buf_set_lines(vim.api.nvim_win_get_buf(win), 0, -1, false, { words })
end

local function draw()
  for _, work in pairs(running) do
    if work.is_shown then
      -- No window can be opened while an <expr> mapping waits for a key.
      return pcall(show, ('speclsp: %s%s'):format(work.title, work.words))
    end
  end
  hide()
end

---@param token string
---@param value table
local function take(token, value)
  if value.kind == 'begin' then
    local work = { title = value.title, words = '', is_shown = false }
    running[token] = work
    vim.defer_fn(function()
      work.is_shown = true
      draw()
    end, M.after_ms)
  elseif value.kind == 'end' then
    running[token] = nil
  elseif running[token] then
    running[token].words = ': ' .. (value.message or ('%d %%'):format(value.percentage or 0))
  end
  draw()
end

---@return string|nil the progress token of a download
function M.download()
  for token in pairs(running) do
    if vim.startswith(token, 'speclsp/download/') then
      return token
    end
  end
end

function M.setup()
  local group = vim.api.nvim_create_augroup('speclsp.progress', {})
  vim.api.nvim_create_autocmd('LspProgress', {
    group = group,
    callback = function(event)
      local params = event.data and event.data.params or {}
      local kind = tostring(params.token):match('^speclsp/(%a+)')
      if kind ~= 'download' and kind ~= 'load' then
        return
      end
      take(params.token, params.value)
      if kind == 'download' then
        local is_running = params.value.kind ~= 'end'
        server.status.download = is_running and ('%d %%'):format(params.value.percentage or 0) or nil
        vim.api.nvim_exec_autocmds('User', { pattern = 'SpeclspStatus', modeline = false })
      end
    end,
  })
  vim.api.nvim_create_autocmd({ 'CursorMoved', 'CursorMovedI' }, {
    group = group,
    callback = function()
      if win then
        draw()
      end
    end,
  })
  vim.api.nvim_create_autocmd('User', {
    group = group,
    pattern = 'SpeclspStatus',
    callback = function()
      local state = server.status.state
      if state == 'stopped' then
        running = {}
        draw()
      elseif state == 'installing' then
        if not running.install then
          take('install', { kind = 'begin', title = 'installing the server' })
        end
        if server.status.message ~= '' then
          take('install', { kind = 'report', message = server.status.message })
        end
      elseif running.install then
        take('install', { kind = 'end' })
      end
    end,
  })
end

return M
