--- Maps the keys; without a suggestion each key does what it did before.
local config = require('speclsp.config')
local suggestions = require('speclsp.suggestions')

local M = {}

---@type table<string, table|false> what a key was mapped to before, by key
local before = {}

local actions = {
  accept = suggestions.accept,
  accept_word = suggestions.accept_word,
  accept_line = suggestions.accept_line,
  next = suggestions.next,
  previous = suggestions.previous,
  dismiss = suggestions.dismiss,
  trigger = suggestions.trigger,
}

local function feed(keys, mode)
  vim.api.nvim_feedkeys(vim.keycode(keys), mode, false)
end

--- Do what the key did before the plugin took it.
---@param key string
function M.fall_back(key)
  local mapping = before[key]
  if not mapping then
    -- Put in front of what was typed meanwhile, and not mapped again.
    feed(key, 'in')
  elseif mapping.callback then
    local result = mapping.callback()
    if mapping.expr == 1 and type(result) == 'string' then
      vim.api.nvim_feedkeys(
        mapping.replace_keycodes == 1 and vim.keycode(result) or result,
        mapping.noremap == 1 and 'in' or 'im',
        false
      )
    end
  else
    local rhs = mapping.expr == 1 and vim.api.nvim_eval(mapping.rhs) or mapping.rhs
    feed(rhs, mapping.noremap == 1 and 'in' or 'im')
  end
end

--- Whether the completion menu wants the key: Tab moves in it.
local function belongs_to_menu(key)
  return vim.fn.pumvisible() == 1 and key:lower() == '<tab>'
end

---@param given speclsp.Keys
function M.set(given)
  M.unset()
  for name, key in pairs(given) do
    local action = actions[name]
    if action and type(key) == 'string' and key ~= '' then
      local mapping = vim.fn.maparg(key, 'i', false, true)
      before[key] = next(mapping) and mapping.buffer ~= 1 and mapping or false
      vim.keymap.set('i', key, function()
        if belongs_to_menu(key) or not action() then
          M.fall_back(key)
        end
      end, { desc = 'speclsp: ' .. name:gsub('_', ' ') })
    end
  end
end

--- Give the keys back.
function M.unset()
  for key, mapping in pairs(before) do
    pcall(vim.keymap.del, 'i', key)
    if mapping then
      vim.fn.mapset('i', false, mapping)
    end
  end
  before = {}
end

--- The keys that another plugin has taken since.
---@return string[]
function M.taken()
  local lost = {}
  for name, key in pairs(config.options.keys) do
    if type(key) == 'string' and key ~= '' then
      local mapping = vim.fn.maparg(key, 'i', false, true)
      if not vim.startswith(mapping.desc or '', 'speclsp: ') then
        lost[#lost + 1] = ('%s (%s)'):format(key, name)
      end
    end
  end
  table.sort(lost)
  return lost
end

return M
