--- Asks for ghost text, hides and accepts it; the editor or the plugin draws it.
local buffers = require('speclsp.buffers')
local config = require('speclsp.config')
local server = require('speclsp.server')
local text = require('speclsp.text')

local M = {}

---@return table the editor's backend or the plugin's
function M.backend()
  local native = require('speclsp.native')
  -- The editor's own cannot be kept from asking while the user types.
  if config.options.backend ~= 'own' and config.options.automatic and native.available() then
    return native
  end
  return require('speclsp.own')
end

local function current()
  return vim.api.nvim_get_current_buf()
end

---@return boolean whether a suggestion is on screen
function M.visible()
  return M.backend().visible(current())
end

--- Called when a suggestion, or a part of one, was accepted.
M.on_accept = function() end

---@param cut nil|fun(rest: string): string
---@return boolean
local function accept(cut)
  local accepted = M.backend().accept(current(), cut)
  if accepted then
    M.on_accept()
  end
  return accepted
end

--- Accept the suggestion; false where there is none, so that a key can do something else.
---@return boolean
function M.accept()
  return accept(nil)
end

---@return boolean
function M.accept_word()
  return accept(text.first_word)
end

---@return boolean
function M.accept_line()
  return accept(text.first_line)
end

---@return boolean
function M.dismiss()
  if not M.visible() then
    return false
  end
  M.backend().clear(current())
  return true
end

--- Ask for a suggestion now, and for several to choose from.
---@return boolean asked
function M.trigger()
  local bufnr = current()
  return server.client_of(bufnr) ~= nil and M.backend().invoke(bufnr)
end

--- Show another candidate; the first time, several are asked for.
---@param count integer
---@return boolean
local function move(count)
  local bufnr = current()
  local backend = M.backend()
  if backend.count(bufnr) > 1 then
    backend.select(bufnr, count)
    return true
  end
  return M.trigger()
end

---@return boolean
function M.next()
  return move(1)
end

---@return boolean
function M.previous()
  return move(-1)
end

local function typed(bufnr)
  local backend = M.backend()
  if not server.client_of(bufnr) then
    return
  end
  if not buffers.suggests(bufnr) or not buffers.at_cursor(bufnr) then
    backend.clear(bufnr)
  elseif config.options.automatic then
    backend.cancel(bufnr)
    backend.typed(bufnr)
  end
end

--- Enable a buffer that the server was attached to.
---@param bufnr integer
local function attach(_, bufnr)
  M.backend().enable(bufnr, buffers.suggests(bufnr))
end

--- Report the item on screen: the server counts it, and generates what follows it.
local function answered(client, bufnr, items)
  if #items > 0 and vim.api.nvim_buf_is_valid(bufnr) and M.backend().visible(bufnr) then
    local item = items[1]
    server.notify(client, 'textDocument/didShowCompletion', {
      item = { insertText = item.speclspText or item.insertText, command = item.command },
    })
  end
end

---@return boolean
function M.is_snoozing()
  local ends_at = server.status.snoozed_until
  return ends_at ~= nil and os.time() < ends_at
end

--- Stop automatic suggestions for so many minutes; 0 ends the snooze.
---@param minutes number
---@param done fun()|nil called when the server has taken it
---@return boolean asked
function M.snooze(minutes, done)
  M.dismiss()
  return server.execute('speclsp.snooze', { minutes }, done)
end

--- Apply the switches to every buffer.
function M.refresh()
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    if server.client_of(bufnr) then
      attach(nil, bufnr)
    end
  end
  typed(current())
end

--- Typing raises several events at once; only the first of them counts.
---@return fun(event: table): boolean
local function first_of_a_key()
  local seen = {}
  return function(event)
    local row, col = unpack(vim.api.nvim_win_get_cursor(0))
    local key = { event.buf, vim.api.nvim_buf_get_changedtick(event.buf), row, col }
    local is_first = event.event == 'InsertEnter' or not vim.deep_equal(seen, key)
    seen = key
    return is_first
  end
end

--- Ask at a cursor that rests where nothing, or another model, answered, once the engine can.
local function ready()
  vim.schedule(function()
    typed(current())
  end)
end

function M.setup()
  server.on_attach = { attach }
  server.on_ready = { ready }
  server.on_answer = { answered }
  local is_first = first_of_a_key()
  local group = vim.api.nvim_create_augroup('speclsp.suggestions', {})
  vim.api.nvim_create_autocmd({ 'InsertEnter', 'CursorMovedI', 'TextChangedI', 'TextChangedP' }, {
    group = group,
    callback = function(event)
      if is_first(event) then
        vim.schedule(function()
          if vim.api.nvim_buf_is_valid(event.buf) then
            typed(event.buf)
          end
        end)
      end
    end,
  })
  vim.api.nvim_create_autocmd('FileType', { -- the former one may have had none
    group = group,
    callback = function(event)
      if server.client_of(event.buf) then
        attach(nil, event.buf)
      end
    end,
  })
  vim.api.nvim_create_autocmd({ 'InsertLeave', 'BufLeave', 'WinLeave' }, {
    group = group,
    callback = function(event)
      if server.client_of(event.buf) then
        M.backend().clear(event.buf)
      end
    end,
  })
  vim.api.nvim_create_autocmd('LspDetach', { -- of a server that died, too
    group = group,
    callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      if client and client.name == 'speclsp' then
        M.backend().clear(event.buf)
      end
    end,
  })
end

return M
