-- Defines the command; everything else is loaded when it is needed.
if vim.g.loaded_speclsp then
  return
end
vim.g.loaded_speclsp = true

vim.api.nvim_create_user_command('Speclsp', function(args)
  require('speclsp.commands').run(args.fargs)
end, {
  nargs = '*',
  complete = function(lead, line)
    return require('speclsp.commands').complete(lead, line)
  end,
  desc = 'speclsp: install, model, snooze, toggle, status, stats, log, restart, reindex',
})
