--- Decides which buffers get suggestions: by kind, by file type and by the user's switches.
local config = require('speclsp.config')

local M = {}

M.enabled = true
---@type table<string, boolean>
local switched_filetypes = {}

---@param filetype string
---@return boolean
function M.filetype_enabled(filetype)
  if switched_filetypes[filetype] ~= nil then
    return switched_filetypes[filetype]
  end
  local listed = config.options.filetypes
  if listed[filetype] ~= nil then
    return listed[filetype]
  end
  return listed['*'] == true
end

--- Whether a buffer is editable text: no terminal, prompt, help or plugin window.
---@param bufnr integer
---@return boolean
function M.is_text(bufnr)
  return vim.api.nvim_buf_is_loaded(bufnr) and vim.bo[bufnr].buftype == '' and vim.bo[bufnr].modifiable
end

---@param bufnr integer
---@return boolean
function M.suggests(bufnr)
  if not M.enabled or not M.is_text(bufnr) or vim.b[bufnr].speclsp_enabled == false then
    return false
  end
  return vim.b[bufnr].speclsp_enabled == true or M.filetype_enabled(vim.bo[bufnr].filetype)
end

---@param scope 'global'|'buffer'|'filetype'
---@return boolean enabled what holds there from now on
function M.toggle(scope)
  local bufnr = vim.api.nvim_get_current_buf()
  if scope == 'buffer' then
    vim.b[bufnr].speclsp_enabled = not M.suggests(bufnr)
    return vim.b[bufnr].speclsp_enabled
  elseif scope == 'filetype' then
    local filetype = vim.bo[bufnr].filetype
    switched_filetypes[filetype] = not M.filetype_enabled(filetype)
    return switched_filetypes[filetype]
  end
  M.enabled = not M.enabled
  return M.enabled
end

--- Whether the editor is at a place where ghost text can be shown and accepted.
---@param bufnr integer
---@return boolean
function M.at_cursor(bufnr)
  if vim.api.nvim_get_current_buf() ~= bufnr or not vim.startswith(vim.api.nvim_get_mode().mode, 'i') then
    return false
  end
  -- A running macro must type what was recorded; virtual space behind a line end has no text.
  if vim.fn.reg_executing() ~= '' or vim.fn.getcurpos()[4] > 0 then
    return false
  end
  return vim.fn.foldclosed(vim.fn.line('.')) == -1
end

return M
