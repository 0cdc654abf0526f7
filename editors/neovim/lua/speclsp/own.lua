--- Ghost text by the plugin itself, for Neovim 0.10 and 0.11, which have none of their own.
local buffers = require('speclsp.buffers')
local insert = require('speclsp.insert')
local server = require('speclsp.server')
local text = require('speclsp.text')

local M = {}

local METHOD = 'textDocument/inlineCompletion'
local INVOKED, AUTOMATIC = 1, 2
local namespace = vim.api.nvim_create_namespace('speclsp')

---@class speclsp.Shown
---@field items table[]
---@field index integer
---@field client_id integer
---@field places speclsp.Place[] one for each item

---@type table<integer, speclsp.Shown>
local shown = {}
---@type table<integer, { client_id: integer, id: integer }>
local pending = {}
---@type table<integer, boolean>
local attached = {}

---@param bufnr integer
---@return boolean
function M.visible(bufnr)
  return #vim.api.nvim_buf_get_extmarks(bufnr, namespace, 0, -1, { limit = 1 }) > 0
end

local function hide(bufnr)
  if vim.api.nvim_buf_is_valid(bufnr) then
    vim.api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
  end
end

---@param bufnr integer
function M.cancel(bufnr)
  local open = pending[bufnr]
  pending[bufnr] = nil
  local client = open and vim.lsp.get_client_by_id(open.client_id)
  if client then
    server.cancel(client, open.id)
  end
end

---@param bufnr integer
function M.clear(bufnr)
  shown[bufnr] = nil
  hide(bufnr)
  M.cancel(bufnr)
end

--- Draw what is left of the chosen item, or nothing where it does not fit any more.
---@param bufnr integer
---@return boolean
local function draw(bufnr)
  hide(bufnr)
  local state = shown[bufnr]
  if not state or not buffers.at_cursor(bufnr) then
    return false
  end
  local item, place = state.items[state.index], state.places[state.index]
  local typed = insert.typed(bufnr, place, item.insertText)
  if not typed or #typed == #item.insertText then
    shown[bufnr] = nil
    return false
  end
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  row = row - 1
  local tail = vim.api.nvim_get_current_line():sub(col + 1, insert.end_col(place))
  local lines = vim.split(item.insertText:sub(#typed + 1), '\n', { plain = true })
  local parts = text.parts_around(lines[1], tail) or { { 0, lines[1] } }
  local hint = #state.items > 1 and (' (%d/%d)'):format(state.index, #state.items) or nil
  local below, tabstop = {}, vim.bo[bufnr].tabstop
  for idx = 2, #lines do
    below[#below + 1] = { { text.expand_tabs(lines[idx], 0, tabstop), 'SpeclspGhost' } }
  end
  if hint and #below > 0 then
    table.insert(below[#below], { hint, 'SpeclspHint' })
  end
  for idx, part in ipairs(parts) do
    local chunks = { { text.expand_tabs(part[2], vim.fn.virtcol('.') - 1, tabstop), 'SpeclspGhost' } }
    if hint and #below == 0 and idx == #parts then
      chunks[2] = { hint, 'SpeclspHint' }
    end
    vim.api.nvim_buf_set_extmark(bufnr, namespace, row, col + part[1], {
      virt_text = chunks,
      virt_text_pos = 'inline',
      hl_mode = 'combine',
      virt_lines = idx == #parts and #below > 0 and below or nil,
      right_gravity = false,
    })
  end
  return true
end

local function place_of(bufnr, item, client)
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  row = row - 1
  if item.range then
    row = item.range.start.line
    local line = vim.api.nvim_buf_get_lines(bufnr, row, row + 1, false)[1] or ''
    col = text.byte_column(line, item.range.start.character, client.offset_encoding)
  end
  return { row = row, col = col, behind = item.speclspBehind }
end

local function take(bufnr, client, asked, result)
  if not vim.api.nvim_buf_is_loaded(bufnr) or vim.api.nvim_buf_get_changedtick(bufnr) ~= asked.changedtick then
    return
  end
  if not buffers.at_cursor(bufnr) or not vim.deep_equal(vim.api.nvim_win_get_cursor(0), asked.cursor) then
    return
  end
  local items, places = {}, {}
  for _, item in ipairs(result and (result.items or result) or {}) do
    if type(item.insertText) == 'string' and item.insertText ~= '' then
      items[#items + 1] = item
      places[#places + 1] = place_of(bufnr, item, client)
    end
  end
  shown[bufnr] = #items > 0 and { items = items, places = places, index = 1, client_id = client.id } or nil
  draw(bufnr)
end

---@return boolean asked
local function ask(bufnr, kind)
  M.cancel(bufnr)
  local client = server.client_of(bufnr)
  if not client or not buffers.suggests(bufnr) or not buffers.at_cursor(bufnr) then
    return false
  end
  local position = vim.lsp.util.make_position_params(0, client.offset_encoding)
  local asked = {
    changedtick = vim.api.nvim_buf_get_changedtick(bufnr),
    cursor = vim.api.nvim_win_get_cursor(0),
  }
  local params = vim.tbl_extend('force', position, { context = { triggerKind = kind } })
  local id
  id = server.request(client, METHOD, params, function(err, result)
    if pending[bufnr] and pending[bufnr].id == id then
      pending[bufnr] = nil
      if not err then
        take(bufnr, client, asked, result)
      end
    end
  end, bufnr)
  pending[bufnr] = id and { client_id = client.id, id = id } or nil
  return id ~= nil
end

--- Keep the suggestion on screen while the typed text fits it, and ask the server anyway.
---@param bufnr integer
function M.typed(bufnr)
  draw(bufnr)
  ask(bufnr, AUTOMATIC)
end

---@param bufnr integer
---@return boolean asked
function M.invoke(bufnr)
  return ask(bufnr, INVOKED)
end

---@param bufnr integer
---@return integer candidates at hand
function M.count(bufnr)
  return shown[bufnr] and #shown[bufnr].items or 0
end

---@param bufnr integer
---@param count integer
function M.select(bufnr, count)
  local state = shown[bufnr]
  if state then
    state.index = (state.index - 1 + count) % #state.items + 1
    draw(bufnr)
  end
end

---@param bufnr integer
---@param cut nil|fun(rest: string): string
---@return boolean
function M.accept(bufnr, cut)
  local state = shown[bufnr]
  local client = state and vim.lsp.get_client_by_id(state.client_id)
  if not state or not client or not M.visible(bufnr) then
    return false
  end
  return insert.soon(function()
    if shown[bufnr] ~= state or not buffers.at_cursor(bufnr) then
      return false
    end
    local item, place = state.items[state.index], state.places[state.index]
    local inserted, is_whole = insert.insert(bufnr, client, item, place, cut)
    if is_whole then
      M.clear(bufnr)
    elseif inserted then
      draw(bufnr) -- what is left of it can be taken by the next key
    end
    return inserted
  end)
end

---@param bufnr integer
---@param enabled boolean
function M.enable(bufnr, enabled)
  if not enabled then
    M.clear(bufnr)
    attached[bufnr] = nil
    return
  end
  if attached[bufnr] then
    return
  end
  attached[bufnr] = true
  vim.api.nvim_create_autocmd({ 'BufUnload', 'BufWipeout' }, {
    buffer = bufnr,
    once = true,
    callback = function()
      M.clear(bufnr)
      attached[bufnr] = nil
    end,
  })
end

return M
