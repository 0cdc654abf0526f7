--- Ghost text by the editor itself: vim.lsp.inline_completion, Neovim 0.12 and later.
---
--- The editor asks 200 ms after the last key, for one candidate.  Asking at once, and for several,
--- needs its private functions; without them everything else still works.
local buffers = require('speclsp.buffers')
local insert = require('speclsp.insert')
local text = require('speclsp.text')

local M = {}

local NAMESPACE = 'nvim.lsp.inline_completion'
local METHOD = 'textDocument/inlineCompletion'
local INVOKED, AUTOMATIC = 1, 2

---@return boolean
function M.available()
  return vim.lsp.inline_completion ~= nil
end

---@param bufnr integer
---@return table|nil the editor's own state of a buffer
local function completor_of(bufnr)
  local ok, capability = pcall(require, 'vim.lsp._capability')
  local class = ok and type(capability.all) == 'table' and capability.all.inline_completion
  local found = class and class.active and class.active[bufnr]
  return found and type(found.request) == 'function' and found or nil
end

---@param bufnr integer
---@param enabled boolean
function M.enable(bufnr, enabled)
  if not enabled then
    M.clear(bufnr)
  end
  vim.lsp.inline_completion.enable(enabled, { bufnr = bufnr })
end

---@param bufnr integer
---@return boolean
function M.visible(bufnr)
  local namespace = vim.api.nvim_get_namespaces()[NAMESPACE]
  if not namespace then
    return false
  end
  return #vim.api.nvim_buf_get_extmarks(bufnr, namespace, 0, -1, { limit = 1 }) > 0
end

---@param item table the editor's
---@return vim.lsp.Client|nil ours, if the item is ours and plain text
local function client_of(item)
  local client = vim.lsp.get_client_by_id(item.client_id)
  return client and client.name == 'speclsp' and type(item.insert_text) == 'string' and client or nil
end

--- Make tabs of drawn text as wide as the buffer shows them: the terminal would get them as they are.
---@param bufnr integer
local function expand_tabs(bufnr)
  local namespace, tabstop = vim.api.nvim_get_namespaces()[NAMESPACE], vim.bo[bufnr].tabstop
  for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(bufnr, namespace, 0, -1, { details = true })) do
    local id, row, col, look = unpack(mark)
    local line = vim.api.nvim_buf_get_lines(bufnr, row, row + 1, false)[1]
    local first = look.virt_text and look.virt_text[1]
    if first then
      first[1] = text.expand_tabs(first[1], vim.fn.strdisplaywidth(line:sub(1, col)), tabstop)
    end
    for _, below in ipairs(look.virt_lines or {}) do
      below[1][1] = text.expand_tabs(below[1][1], 0, tabstop)
    end
    local same = { id = id, virt_text = look.virt_text, virt_lines = look.virt_lines }
    same.virt_text_pos, same.hl_mode = look.virt_text_pos, look.hl_mode
    vim.api.nvim_buf_set_extmark(bufnr, namespace, row, col, same)
  end
end

---@param completor table
local function show_tabs(completor)
  local show = completor.show
  completor.show = function(self, ...)
    show(self, ...)
    local item = self.current
    if item and client_of(item) and item.insert_text:find('\t', 1, true) then
      pcall(expand_tabs, self.bufnr)
    end
  end
end

local function ask(bufnr, kind)
  local completor = completor_of(bufnr)
  if completor and type(completor.show) == 'function' and not rawget(completor, 'show') then
    show_tabs(completor)
  end
  if not completor or not pcall(completor.request, completor, kind) then
    return false
  end
  if type(completor.reset_timer) == 'function' then
    pcall(completor.reset_timer, completor) -- or the editor would ask the same again
  end
  return true
end

---@param item table the editor's
---@param answered table the server's
---@return speclsp.Place
local function place_of(item, answered)
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  row = row - 1
  if item.range then
    row, col = item.range:to_extmark()
  end
  return { row = row, col = col, behind = answered.speclspBehind }
end

---@return boolean outdated
---@return boolean is_below whether a line end of it has been typed or taken
local function state_of(bufnr, item)
  if not client_of(item) then
    return false, false
  end
  local whole = text.without_cr(item.insert_text)
  local typed = insert.typed(bufnr, place_of(item, {}), whole)
  return not typed or typed == whole, typed ~= nil and typed:find('\n', 1, true) ~= nil
end

--- Take away what of ours does not fit what was typed, which the editor shows until the next answer, and
--- ask at once, where the editor would wait.
---@param bufnr integer
function M.typed(bufnr)
  local completor = completor_of(bufnr)
  local item = completor and completor.current
  local ok, outdated, is_below = pcall(state_of, bufnr, item)
  if ok and outdated then
    M.clear(bufnr)
  elseif ok and is_below then
    pcall(completor.hide, completor) -- the editor would draw lines that stand there already
  end
  ask(bufnr, AUTOMATIC)
end

--- Ask for several candidates.
---@param bufnr integer
---@return boolean asked
function M.invoke(bufnr)
  return ask(bufnr, INVOKED)
end

---@param bufnr integer
---@return integer candidates at hand
function M.count(bufnr)
  local completor = completor_of(bufnr)
  local ok, n = pcall(function()
    return completor and completor.current and completor:count_items() or 0
  end)
  return ok and n or 0
end

---@param bufnr integer
---@param count integer
function M.select(bufnr, count)
  vim.lsp.inline_completion.select({ bufnr = bufnr, count = count })
end

---@param bufnr integer
function M.clear(bufnr)
  local completor = completor_of(bufnr)
  if completor and type(completor.abort) == 'function' and pcall(completor.abort, completor) then
    return -- the editor would ask at the end of its 200 ms otherwise
  end
  -- An item that the callback does not give back is dropped.
  vim.lsp.inline_completion.get({
    bufnr = bufnr,
    on_accept = function()
      return nil
    end,
  })
end

---@param bufnr integer
---@param cut nil|fun(rest: string): string
---@return boolean
function M.accept(bufnr, cut)
  local completor = completor_of(bufnr)
  local item = completor and completor.current
  local ok, client, place, ours = pcall(function()
    local _, answered = completor:get_item(item._index)
    return client_of(item), place_of(item, answered), answered
  end)
  if not ok or not client or not place.behind then
    return not cut and M.visible(bufnr) and vim.lsp.inline_completion.get({ bufnr = bufnr })
  end
  return insert.soon(function()
    if completor.current ~= item or not buffers.at_cursor(bufnr) then
      return false
    end
    local inserted, is_whole = insert.insert(bufnr, client, ours, place, cut)
    if is_whole then
      M.clear(bufnr)
    end
    return inserted -- what is left of it can be taken by the next key
  end)
end

--- Cancel the buffer's pending requests: a newer one replaces them.
---@param bufnr integer
function M.cancel(bufnr)
  for _, client in ipairs(vim.lsp.get_clients({ bufnr = bufnr, name = 'speclsp' })) do
    for id, request in pairs(client.requests or {}) do
      if request.type == 'pending' and request.bufnr == bufnr and request.method == METHOD then
        client:cancel_request(id)
      end
    end
  end
end

return M
