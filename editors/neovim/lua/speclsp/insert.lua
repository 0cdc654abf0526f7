--- Inserts a suggestion, or its beginning, into the buffer.
local server = require('speclsp.server')
local text = require('speclsp.text')

local M = {}

---@class speclsp.Place what an item replaces, which ends in the cursor's line
---@field row integer from 0
---@field col integer bytes, from 0
---@field behind integer bytes behind its end in that line

--- Where an item stands now that more has been typed.
---@param bufnr integer
---@param place speclsp.Place
---@param insert_text string
---@return string|nil typed what stands there already of the text; nil: it does not fit any more
function M.typed(bufnr, place, insert_text)
  local cursor_row, cursor_col = unpack(vim.api.nvim_win_get_cursor(0))
  cursor_row = cursor_row - 1
  if cursor_row < place.row or (cursor_row == place.row and cursor_col < place.col) then
    return nil
  end
  local lines = vim.api.nvim_buf_get_text(bufnr, place.row, place.col, cursor_row, cursor_col, {})
  local typed = table.concat(lines, '\n')
  return vim.startswith(insert_text, typed) and typed or nil
end

--- Where what an item replaces ends now.
---@param place speclsp.Place
---@return integer column in the cursor's line, not before the cursor
function M.end_col(place)
  local col = vim.api.nvim_win_get_cursor(0)[2]
  return math.max(col, #vim.api.nvim_get_current_line() - place.behind)
end

--- Start a new undo block, in Insert mode too: assigning the option does (:help undo-break).
function M.break_undo()
  vim.bo.undolevels = vim.bo.undolevels -- the buffer's own value, which all others would get else
end

--- Insert all of an item, or the beginning that `cut` leaves of what is not typed yet.
---
--- It is one step of undo, apart from what was typed before it.
---@param bufnr integer
---@param client vim.lsp.Client
---@param item table the server's item; its text holds no CRs
---@param place speclsp.Place
---@param cut nil|fun(rest: string): string
---@return boolean inserted
---@return boolean is_whole whether nothing is left
function M.insert(bufnr, client, item, place, cut)
  local whole = item.insertText
  local typed = M.typed(bufnr, place, whole)
  if not typed or typed == whole then
    return false, false
  end
  local rest = whole:sub(#typed + 1)
  local part = cut and cut(rest) or rest
  local is_whole = part == rest
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  row = row - 1
  -- Only the whole text stands for what it replaces behind the cursor.
  local end_col = is_whole and M.end_col(place) or col
  M.break_undo()
  local lines = vim.split(part, '\n', { plain = true })
  vim.api.nvim_buf_set_text(bufnr, row, col, row, end_col, lines)
  vim.api.nvim_win_set_cursor(0, { row + #lines, (#lines == 1 and col or 0) + #lines[#lines] })
  M.break_undo()
  if not is_whole then
    local original = item.speclspText or whole
    server.notify(client, 'textDocument/didPartiallyAcceptCompletion', {
      item = { insertText = original, command = item.command },
      acceptedLength = text.accepted_length(original, #typed + #part),
    })
  elseif item.command then
    server.execute(item.command.command, item.command.arguments)
  end
  return true, is_whole
end

--- Change the buffer now, before the keys behind this one; right after an `<expr>` mapping, in which
--- no text may change (E565) and no command moves the cursor (E523).
---@param change fun(): boolean changed
---@return boolean changed, or will be
function M.soon(change)
  local ok, result = pcall(change)
  if not ok and not tostring(result):find('E565') and not tostring(result):find('E523') then
    error(result, 0)
  elseif not ok then
    vim.schedule(change)
  end
  return not ok or result
end

return M
