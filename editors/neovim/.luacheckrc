-- Neovim's LuaJIT, and its global.
std = 'luajit'
globals = { 'vim' }
max_line_length = 120
