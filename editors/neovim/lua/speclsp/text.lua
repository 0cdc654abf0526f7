--- Cuts text to a word or a line, and measures it in UTF-16 units as LSP does.
local M = {}

--- The next word with what stands before it: blanks and line ends, then letters or signs.
---@param text string
---@return string
function M.first_word(text)
  local n_bytes = vim.fn.matchend(text, [[^\_s*\%(\k\+\|\%(\k\@!\S\)\+\)]])
  return n_bytes <= 0 and text or text:sub(1, n_bytes)
end

--- The rest of this line; where nothing of it is left, the next line with the line end before it.
---@param text string
---@return string
function M.first_line(text)
  local stop = text:find('\n', text:sub(1, 1) == '\n' and 2 or 1, true)
  return stop and text:sub(1, stop - 1) or text
end

--- Neovim keeps a CRLF file's lines without their CR, and adds it when writing.
---@param text string
---@return string
function M.without_cr(text)
  return (text:gsub('\r\n', '\n'))
end

---@param text string valid UTF-8
---@return integer UTF-16 code units
function M.utf16_length(text)
  local n_units = 0
  for idx = 1, #text do
    local byte = text:byte(idx)
    if byte < 0x80 or byte >= 0xC0 then
      n_units = n_units + (byte >= 0xF0 and 2 or 1)
    end
  end
  return n_units
end

---@param line string
---@param character integer an LSP position's
---@param encoding string
---@return integer bytes before it
function M.byte_column(line, character, encoding)
  if encoding == 'utf-8' then
    return math.min(character, #line)
  end
  local ok, n_bytes = pcall(vim.str_byteindex, line, character, encoding == 'utf-16')
  return ok and n_bytes or #line
end

--- How many UTF-16 units of `original`, which may hold CRs, its first `n_bytes` without them are.
---@param original string
---@param n_bytes integer of `without_cr(original)`
---@return integer
function M.accepted_length(original, n_bytes)
  local idx = 1
  while n_bytes > 0 and idx <= #original do
    if original:sub(idx, idx + 1) ~= '\r\n' then
      n_bytes = n_bytes - 1
    end
    idx = idx + 1
  end
  return M.utf16_length(original:sub(1, idx - 1))
end

--- Find the characters of `tail` in `text`, so that only new text is drawn.
---
--- `foo(|)` with the suggestion `x, y)` draws `x, y` before the bracket that is there.
---@param text string what goes between the cursor and the tail's end
---@param tail string what stands there now
---@return { [1]: integer, [2]: string }[]|nil parts (bytes after the cursor, text); nil: not a subsequence
function M.parts_around(text, tail)
  if tail == '' then
    return { { 0, text } }
  end
  if text:sub(-#tail) == tail then
    return { { 0, text:sub(1, -#tail - 1) } }
  end
  local parts, from = {}, 1
  for _, start in ipairs(vim.str_utf_pos(tail)) do
    local character = tail:sub(start, start + vim.str_utf_end(tail, start))
    local found, last = text:find(character, from, true)
    if not found then
      return nil
    end
    if found > from then
      parts[#parts + 1] = { start - 1, text:sub(from, found - 1) }
    end
    from = last + 1
  end
  if from <= #text then
    parts[#parts + 1] = { #tail, text:sub(from) }
  end
  return parts
end

--- Tabs as wide as the buffer shows them: virtual text would show `^I`.
---@param text string
---@param column integer cells to the left of it
---@param tabstop integer
---@return string
function M.expand_tabs(text, column, tabstop)
  local out = {}
  for piece, tab in text:gmatch('([^\t]*)(\t?)') do
    out[#out + 1] = piece
    column = column + vim.fn.strdisplaywidth(piece, column)
    if tab ~= '' then
      local n_cells = tabstop - column % tabstop
      out[#out + 1] = (' '):rep(n_cells)
      column = column + n_cells
    end
  end
  return table.concat(out)
end

return M
