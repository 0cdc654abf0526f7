--- Maps the keys; without a suggestion or a next edit each key does what it did before.
local config = require('speclsp.config')
local edits = require('speclsp.edits')
local suggestions = require('speclsp.suggestions')

local M = {}

---@class speclsp.Mapped
---@field mode string
---@field key string
---@field before table|false what the key was mapped to before
---@field former string|nil a name under which that can still be typed; not where it is mapped again
---@field take fun() map the key

---@type table<string, speclsp.Mapped> by mode and key
local mapped = {}

local function toggle()
  require('speclsp.commands').run({ 'toggle' })
  return true
end

--- A count makes the key Normal mode's: `3<Tab>` jumps, `2<Esc>` gives the count up.
---@param action fun(): boolean
---@return fun(): boolean
local function without_count(action)
  return function()
    return vim.v.count == 0 and action()
  end
end

---@type table<string, table<string, fun(): boolean>> what a key does, by its name and mode
local actions = {
  accept = {
    i = function()
      return suggestions.accept() or edits.accept()
    end,
    n = without_count(edits.accept),
  },
  accept_word = { i = suggestions.accept_word },
  accept_line = { i = suggestions.accept_line },
  next = { i = suggestions.next },
  previous = { i = suggestions.previous },
  dismiss = {
    i = function()
      return suggestions.dismiss() or edits.decline()
    end,
  },
  decline = { n = without_count(edits.decline) },
  trigger = { i = suggestions.trigger },
  toggle = { i = toggle, n = toggle },
}

--- Do what the key did before the plugin took it.
---@param one speclsp.Mapped
local function fall_back(one)
  local count = one.mode == 'n' and vim.v.count > 0 and tostring(vim.v.count) or ''
  if one.before and not one.former then
    -- What it gives may begin with the key, which Vim maps no second time under the key itself alone.
    vim.fn.mapset(one.mode, false, one.before)
    local given_back = vim.fn.maparg(one.key, one.mode, false, true)
    vim.schedule(function()
      local now = vim.fn.maparg(one.key, one.mode, false, true)
      if mapped[one.mode .. one.key] == one and vim.deep_equal(now, given_back) then
        one.take()
      end
    end)
  end
  -- Put in front of what was typed meanwhile, and mapped only to what it was before.
  vim.api.nvim_feedkeys(vim.keycode(count .. (one.former or one.key)), one.before and 'im' or 'in', false)
  if vim.api.nvim_get_mode().mode == 'niI' then
    vim.api.nvim_feedkeys(vim.keycode('<C-o>'), 'in', false) -- this key was the one command of the first
  end
end

--- Whether the completion menu wants the key: Tab moves in it.
local function belongs_to_menu(key)
  return vim.fn.pumvisible() == 1 and key:lower() == '<tab>'
end

---@param mode string
---@param key string
---@param name string
---@param action fun(): boolean
local function map(mode, key, name, action)
  local mapping = vim.fn.maparg(key, mode, false, true)
  local before = next(mapping) and mapping.buffer ~= 1 and mapping or false
  local former = before and before.noremap == 1 and ('<Plug>(speclsp-former-%s)'):format(name) or nil
  if former then
    local same = vim.tbl_extend('force', before, { lhs = former, lhsraw = vim.keycode(former) })
    same.lhsrawalt = nil
    vim.fn.mapset(mode, false, same)
  end
  local one = { mode = mode, key = key, before = before, former = former }
  function one.take()
    vim.keymap.set(mode, key, function()
      if belongs_to_menu(key) or not action() then
        fall_back(one)
      end
    end, { desc = 'speclsp: ' .. name:gsub('_', ' ') })
  end
  mapped[mode .. key] = one
  one.take()
end

---@param name string
---@return table<string, fun(): boolean> what the key of this name does, by mode
local function actions_of(name)
  local all = vim.tbl_extend('force', {}, actions[name] or {})
  if not config.options.next_edits and all.n ~= toggle then
    all.n = nil
  end
  return all
end

---@param given speclsp.Keys
function M.set(given)
  M.unset()
  for name, key in pairs(given) do
    if type(key) == 'string' and key ~= '' then
      for mode, action in pairs(actions_of(name)) do
        map(mode, key, name, action)
      end
    end
  end
end

---@return boolean whether a key is the plugin's, and nobody has mapped it since
local function is_ours(mode, key)
  return vim.startswith(vim.fn.maparg(key, mode, false, true).desc or '', 'speclsp: ')
end

--- Give the keys back.
function M.unset()
  for _, one in pairs(mapped) do
    if one.former then
      pcall(vim.keymap.del, one.mode, one.former) -- `:mapclear` removes it, too
    end
    if is_ours(one.mode, one.key) then
      vim.keymap.del(one.mode, one.key)
      if one.before then
        vim.fn.mapset(one.mode, false, one.before)
      end
    end
  end
  mapped = {}
end

--- The keys that another plugin has taken since.
---@return string[]
function M.taken()
  local lost = {}
  for name, key in pairs(config.options.keys) do
    for mode in pairs(type(key) == 'string' and key ~= '' and actions_of(name) or {}) do
      if not is_ours(mode, key) then
        lost[#lost + 1] = ('%s (%s)'):format(key, name)
      end
    end
  end
  table.sort(lost)
  return lost
end

return M
