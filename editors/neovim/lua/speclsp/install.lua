--- Installs the server into a private environment, from the wheel or checkout beside the plugin.
local M = {}

local is_windows = vim.fn.has('win32') == 1
---@type boolean
M.is_running = false

---@return string
local function environment()
  return vim.fs.joinpath(vim.fn.stdpath('data') --[[@as string]], 'speclsp', 'environment')
end

---@param name string
---@return string path of a program in the environment
local function program(name)
  local folder = is_windows and 'Scripts' or 'bin'
  return vim.fs.joinpath(environment(), folder, is_windows and name .. '.exe' or name)
end

---@return string|nil path of the installed server; nil, too, where the Python that it was installed with is gone
function M.server()
  local is_there = vim.fn.executable(program('speclsp')) == 1 and vim.fn.executable(program('python')) == 1
  return is_there and program('speclsp') or nil
end

--- What is installed: a released plugin carries the server's wheel, and a checkout is the server.
---@return string|nil path
---@return string|nil version
function M.source()
  local plugin = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h:h:h')
  local wheel = vim.fn.glob(vim.fs.joinpath(plugin, 'server', 'speclsp-*.whl'), true, true)[1]
  if wheel then
    return wheel, vim.fs.basename(wheel):match('^speclsp%-([^-]+)')
  end
  local root = vim.fn.fnamemodify(plugin, ':h:h')
  local file = io.open(vim.fs.joinpath(root, 'speclsp', '__init__.py'))
  if file then
    local version = file:read('a'):match('__version__ = "([^"]+)"')
    file:close()
    return root, version
  end
end

---@param version string|nil of the server
---@return boolean whether it is older than what would be installed
function M.is_older(version)
  local _, ours = M.source()
  local mine, theirs = vim.version.parse(version or ''), vim.version.parse(ours or '')
  return mine ~= nil and theirs ~= nil and vim.version.lt(mine, theirs)
end

---@return string|nil python
local function find_python()
  local names = { 'python3', 'python', 'python3.14', 'python3.13', 'python3.12', 'python3.11' }
  if is_windows then -- Python's launcher; elsewhere it may be another program
    table.insert(names, 'py')
  end
  for _, name in ipairs(names) do
    local python = vim.fn.exepath(name)
    if python ~= '' then
      local check = 'import sys; sys.exit(sys.version_info < (3, 11))'
      if vim.system({ python, '-c', check }):wait().code == 0 then
        return python
      end
    end
  end
end

---@param steps { [1]: string, [2]: string[] }[] what is said, and the command
---@param env table<string, string>
---@param note fun(line: string)
---@param done fun(problem: string|nil)
local function run(steps, env, note, done)
  local step = table.remove(steps, 1)
  if not step then
    done(nil)
    return
  end
  vim.notify('speclsp: installing ' .. step[1] .. ' …')
  local function heard(_, data)
    if data then
      vim.schedule(function()
        note(vim.trim(data))
      end)
    end
  end
  local options = { text = true, env = env, stdout = heard, stderr = heard }
  local ran, problem = pcall(vim.system, step[2], options, vim.schedule_wrap(function(result)
    if result.code == 0 then
      run(steps, env, note, done)
    else
      done(('installing %s failed (exit status %d); see :Speclsp log'):format(step[1], result.code))
    end
  end))
  if not ran then
    done(('installing %s failed (%s)'):format(step[1], (problem:gsub('^.-:%d+: ', ''))))
  end
end

--- Install the server, or update it.
---@param note fun(line: string) takes what the steps write
---@param done fun(failure: string|nil) called at the end
---@return boolean has_begun
function M.start(note, done)
  local source = M.source()
  local python = M.server() and program('python') or find_python()
  local problem = M.is_running and 'it is being installed already'
    or not source and 'the plugin came without the server: pip install speclsp, and set cmd in setup()'
    or not python and 'the server needs Python 3.11 or newer on PATH'
  if problem then
    vim.notify('speclsp: ' .. problem .. '.', vim.log.levels.ERROR)
    return false
  end
  M.is_running = true
  local steps = {
    { 'the build of llama.cpp that fits this computer', { program('python'), '-m', 'speclsp.install_llama_cpp' } },
    { 'the server', { program('python'), '-m', 'pip', 'install', '--no-input', '--upgrade', source } },
  }
  if not M.server() then
    table.insert(steps, 1, { 'an environment', { python, '-m', 'venv', '--clear', environment() } })
  end
  run(steps, { PYTHONPATH = source }, note, function(failure)
    M.is_running = false
    done(failure)
  end)
  return true
end

return M
