---@brief
---
--- https://pypi.org/project/speclsp/
---
--- Completes code with a fill-in-the-middle model on the user's own GPU.
--- `speclsp` can be installed with `pip install speclsp`.
---
--- It answers `textDocument/inlineCompletion`, which Neovim 0.12 shows:
---
--- ```lua
--- vim.lsp.enable('speclsp')
--- vim.lsp.inline_completion.enable()
--- vim.keymap.set('i', '<Tab>', function()
---   if not vim.lsp.inline_completion.get() then
---     return '<Tab>'
---   end
--- end, { expr = true })
--- ```
---
--- `init_options` are the server's settings; `speclsp models recommend` names a model for the machine.

---@type vim.lsp.Config
return {
  cmd = { 'speclsp', 'serve', '--stdio' },
  root_markers = { '.git' },
  init_options = { model = 'auto' },
}
