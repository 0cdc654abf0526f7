--- The options of `require('speclsp').setup()`, and what is wrong with them.
local M = {}

---@class speclsp.Keys
---@field accept string|false all of the suggestion
---@field accept_word string|false its next word
---@field accept_line string|false its next line
---@field next string|false the next candidate; asks for several where there is one
---@field previous string|false
---@field dismiss string|false
---@field decline string|false in Normal mode: takes a next edit away
---@field trigger string|false ask now
---@field toggle string|false in Insert and Normal mode: switches suggestions off and on everywhere

---@class speclsp.Options
---@field cmd string|string[]|nil the server; nil: `speclsp` on $PATH
---@field settings table the server's settings, see docs/settings.md
---@field filetypes table<string, boolean> '*' stands for all that are not named
---@field root_markers string[] what the folder of a project holds
---@field enabled boolean whether suggestions come from the start
---@field automatic boolean whether they come while typing, or only when asked for
---@field backend 'auto'|'native'|'own' who draws: 'auto' is the editor where it can (0.12), else the plugin
---@field next_edits boolean whether next edits are asked for
---@field keys speclsp.Keys
---@field max_restarts integer in a row, before the plugin gives up on a server that dies

---@type speclsp.Options
M.defaults = {
  cmd = nil,
  settings = {},
  filetypes = { ['*'] = true, help = false, gitrebase = false },
  root_markers = { '.git', '.hg', 'pyproject.toml', 'package.json', 'Cargo.toml', 'go.mod', 'Makefile' },
  enabled = true,
  automatic = true,
  backend = 'auto',
  next_edits = true,
  keys = {
    accept = '<Tab>',
    accept_word = '<M-w>',
    accept_line = '<M-l>',
    next = '<M-]>',
    previous = '<M-[>',
    dismiss = '<C-]>',
    decline = '<Esc>',
    trigger = '<M-\\>',
    toggle = '<M-Bar>',
  },
  max_restarts = 5,
}

---@type speclsp.Options
M.options = vim.deepcopy(M.defaults)

local types = {
  cmd = { 'string', 'table', 'nil' },
  settings = { 'table' },
  filetypes = { 'table' },
  root_markers = { 'table' },
  enabled = { 'boolean' },
  automatic = { 'boolean' },
  backend = { 'string' },
  next_edits = { 'boolean' },
  keys = { 'table' },
  max_restarts = { 'number' },
}

local function one_of(value, allowed)
  for _, name in ipairs(allowed) do
    if value == name then
      return true
    end
  end
  return false
end

---@param given table
---@return string[] problems, each a sentence that says what to do
function M.problems(given)
  local problems = {}
  for name, value in pairs(given) do
    local allowed = types[name]
    if not allowed then
      problems[#problems + 1] = ('there is no option %q; see :help speclsp-options'):format(name)
    elseif not one_of(type(value), allowed) then
      problems[#problems + 1] = ('%s must be a %s, and is a %s'):format(
        name,
        table.concat(vim.tbl_filter(function(kind) return kind ~= 'nil' end, allowed), ' or a '),
        type(value)
      )
    end
  end
  if given.backend ~= nil and not one_of(given.backend, { 'auto', 'native', 'own' }) then
    problems[#problems + 1] = "backend must be 'auto', 'native' or 'own'"
  end
  for name, enabled in pairs(type(given.filetypes) == 'table' and given.filetypes or {}) do
    if type(name) ~= 'string' or type(enabled) ~= 'boolean' then
      problems[#problems + 1] = 'filetypes must say true or false for each name, such as { python = true }'
      break
    end
  end
  for name, key in pairs(type(given.keys) == 'table' and given.keys or {}) do
    if M.defaults.keys[name] == nil then
      problems[#problems + 1] = ('there is no key %q; see :help speclsp-keys'):format(tostring(name))
    elseif type(key) ~= 'string' and key ~= false then
      problems[#problems + 1] = ('keys.%s must be a key like <Tab>, or false'):format(name)
    end
  end
  table.sort(problems)
  return problems
end

--- Take a user's options over the defaults.  What is wrong is reported, and its default stays.
---@param given table|nil
function M.apply(given)
  given = given or {}
  local taken = vim.deepcopy(M.defaults)
  local problems = type(given) == 'table' and M.problems(given) or { 'setup() takes a table' }
  for _, problem in ipairs(problems) do
    vim.notify('speclsp: ' .. problem .. '.', vim.log.levels.ERROR)
  end
  for name, value in pairs(type(given) == 'table' and given or {}) do
    if #M.problems({ [name] = value }) == 0 then
      if name == 'keys' or name == 'filetypes' then
        taken[name] = vim.tbl_extend('force', taken[name], value)
      else
        taken[name] = vim.deepcopy(value)
      end
    end
  end
  M.options = taken
end

return M
