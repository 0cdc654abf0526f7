--- Next edits: asks for them, draws one, and applies or declines it.
---
--- When to ask is the table of docs/lsp.md; an edit's hunks replace whole lines, so that one stays as
--- it is while its text is typed.
local buffers = require('speclsp.buffers')
local config = require('speclsp.config')
local insert = require('speclsp.insert')
local server = require('speclsp.server')
local suggestions = require('speclsp.suggestions')
local text = require('speclsp.text')

local M = {}

local NEXT_EDIT = 'textDocument/copilotInlineEdit'
local INLINE = 'textDocument/inlineCompletion'
local IDLE_MS = 300
local PASTE_MS, PASTE_BYTES, PASTE_LINES = 1500, 200, 8
--- While a suggestion is asked for, whether it has come is looked up so often.
local POLL_MS = 30
--- Lines between cursor and edit up to which one key applies it; farther off, it goes there first.
local NEAR = 2

local namespace = vim.api.nvim_create_namespace('speclsp.edits')

---@class speclsp.Hunk rows from 0; those from `first` to `last` - 1 become `lines`
---@field first integer
---@field last integer
---@field lines string[]
---@field old string[] the rows as they are

---@class speclsp.Edit
---@field id string
---@field bufnr integer the buffer that it changes
---@field file string the name of that buffer's file
---@field shown_in integer that in which it is drawn, or announced where it changes another one
---@field tick integer of the buffer that it changes
---@field hunks speclsp.Hunk[]

---@type speclsp.Edit|nil the edit that is on screen
local shown
---@type integer|nil the open request
local asking
---@type uv_timer_t|nil
local due
--- What is known of the user, as tests/support/asking_client.py has it.
local edited_row, is_wanted, last_key, inserted, asked_at = nil, false, 0, {}, nil
local is_applying = false
--- Whether the key leads to another buffer right now.
local is_leading = false
---@type { bufnr: integer, drops: boolean }|nil the changes of this turn of the event loop, if any
local turn
--- Whether the user has asked by hand and has not been answered.
local is_by_hand = false
---@type table<integer, boolean>
local attached = {}

local function now_ms()
  return vim.uv.hrtime() / 1e6
end

local function row_of_cursor()
  return vim.api.nvim_win_get_cursor(0)[1] - 1
end

local function changed()
  vim.api.nvim_exec_autocmds('User', { pattern = 'SpeclspStatus', modeline = false })
end

-- What is shown ----------------------------------------------------------------------------------

---@return boolean whether an edit is on screen
function M.visible()
  return shown ~= nil and shown.shown_in == vim.api.nvim_get_current_buf()
end

---@param edit speclsp.Edit
local function is_elsewhere(edit)
  return edit.bufnr ~= edit.shown_in
end

local function hide()
  if shown then
    if vim.api.nvim_buf_is_valid(shown.shown_in) then
      vim.api.nvim_buf_clear_namespace(shown.shown_in, namespace, 0, -1)
    end
    shown = nil
    changed()
  end
end

local function cancel()
  local client = server.client()
  if asking and client then
    server.cancel(client, asking)
  end
  asking = nil
end

--- Take the edit away.
function M.drop()
  cancel()
  hide()
end

---@return integer before bytes of the characters that two texts share at their beginnings
---@return integer after bytes of those that they share at their ends, behind those
local function common(a, b)
  local before, most = 0, math.min(#a, #b)
  while before < most and a:byte(before + 1) == b:byte(before + 1) do
    before = before + 1
  end
  if before < #a then
    before = before + vim.str_utf_start(a, before + 1)
  end
  local after = 0
  while after < most - before and a:byte(#a - after) == b:byte(#b - after) do
    after = after + 1
  end
  local at = #a - after + 1
  if after > 0 and vim.str_utf_start(a, at) < 0 then
    after = after - vim.str_utf_end(a, at) - 1
  end
  return before, after
end

--- Widen a part of a line, columns from 0, to the words and characters that it cuts.
local function whole_words(line, first, last)
  local function is_in_word(col)
    local both = col > 0 and line:sub(col, col + 1) or ''
    return #both == 2 and both:match('^[%w_\128-\255]+$') ~= nil
  end
  while is_in_word(first) do
    first = first - 1
  end
  while is_in_word(last) do
    last = last + 1
  end
  return first, last
end

local function mark(row, col, options)
  vim.api.nvim_buf_set_extmark(shown.shown_in, namespace, row, col, options)
end

local function strike(row, first, last)
  mark(row, first, { end_row = row, end_col = last, hl_group = 'SpeclspDeleted' })
end

local function shown_text(line)
  return text.expand_tabs(line, 0, vim.bo[shown.bufnr].tabstop)
end

local function draw_line(row, old, now)
  local before, after = common(old, now)
  if before == #old - after then
    local added = text.expand_tabs(now:sub(before + 1, #now - after), before, vim.bo[shown.bufnr].tabstop)
    mark(row, before, { virt_text = { { added, 'SpeclspAdded' } }, virt_text_pos = 'inline', right_gravity = false })
    return
  end
  strike(row, whole_words(old, before, #old - after))
  if before + after < #now then
    local words = { { '  ', '' }, { vim.trim(now), 'SpeclspAdded' } }
    mark(row, #old, { virt_text = words, virt_text_pos = 'eol' })
  end
end

local function draw_hunk(hunk)
  if #hunk.old == #hunk.lines then
    for idx, old in ipairs(hunk.old) do
      if old ~= hunk.lines[idx] then
        draw_line(hunk.first + idx - 1, old, hunk.lines[idx])
      end
    end
    return
  end
  for idx, old in ipairs(hunk.old) do
    local row, first = hunk.first + idx - 1, #old:match('^%s*')
    strike(row, first, #old)
  end
  local rows = {}
  for _, line in ipairs(hunk.lines) do
    rows[#rows + 1] = { { shown_text(line), 'SpeclspAdded' } }
  end
  if #rows > 0 then
    local is_first = hunk.last == 0
    mark(is_first and 0 or hunk.last - 1, 0, { virt_lines = rows, virt_lines_above = is_first })
  end
end

---@return integer rows between the cursor and the nearest hunk
local function distance()
  local row, nearest = row_of_cursor(), math.huge
  for _, hunk in ipairs(shown.hunks) do
    local far = row < hunk.first and hunk.first - row or math.max(0, row - math.max(hunk.first, hunk.last - 1))
    nearest = math.min(nearest, far)
  end
  return nearest
end

---@param edit speclsp.Edit
---@return integer from 0; a hunk may stand behind the last line
local function first_row(edit)
  return math.min(edit.hunks[1].first, vim.api.nvim_buf_line_count(edit.bufnr) - 1)
end

--- Say behind the cursor's line where the key leads.
local function announce(where)
  local words = ('  %s: next edit in %s'):format(config.options.keys.accept or 'accept', where)
  mark(row_of_cursor(), 0, { virt_text = { { words, 'SpeclspHint' } }, virt_text_pos = 'eol' })
end

local function draw()
  if not shown or not vim.api.nvim_buf_is_valid(shown.shown_in) then
    return
  end
  vim.api.nvim_buf_clear_namespace(shown.shown_in, namespace, 0, -1)
  if is_elsewhere(shown) then
    if M.visible() and vim.api.nvim_buf_is_loaded(shown.bufnr) then
      announce(('%s:%d'):format(shown.file, first_row(shown) + 1))
    end
    return
  end
  for _, hunk in ipairs(shown.hunks) do
    draw_hunk(hunk)
  end
  if M.visible() and distance() > NEAR then
    mark(first_row(shown), 0, { sign_text = '»', sign_hl_group = 'SpeclspHint' })
    announce(('line %d'):format(first_row(shown) + 1))
  end
end

---@param wire table the server's hunk
---@return speclsp.Hunk
local function hunk_of(bufnr, wire)
  local first, last = wire.range.start, wire.range['end']
  local lines = wire.text == '' and {} or vim.split(text.without_cr(wire.text), '\n', { plain = true })
  if lines[#lines] == '' then
    table.remove(lines)
  end
  -- A range that ends within a line is the buffer's last.
  local last_row = last.character == 0 and last.line or last.line + 1
  local old = vim.api.nvim_buf_get_lines(bufnr, first.line, last_row, false)
  return { first = first.line, last = last_row, lines = lines, old = old }
end

---@param client vim.lsp.Client
---@param document { uri: string, version: integer }
---@return integer|nil its buffer, if that is as the server has it
local function buffer_of(client, document)
  for bufnr in pairs(client.attached_buffers) do
    if vim.uri_from_bufnr(bufnr) == document.uri then
      return vim.lsp.util.buf_versions[bufnr] == document.version and bufnr or nil
    end
  end
end

local function show(client, shown_in, bufnr, edit)
  local is_new = not shown or shown.id ~= edit.id
  hide()
  shown = {
    id = edit.id,
    bufnr = bufnr,
    file = vim.fs.basename(vim.api.nvim_buf_get_name(bufnr)),
    shown_in = shown_in,
    tick = vim.api.nvim_buf_get_changedtick(bufnr),
    hunks = vim.tbl_map(function(wire)
      return hunk_of(bufnr, wire)
    end, edit.hunks),
  }
  draw()
  if is_new then
    server.notify(client, 'textDocument/didShowInlineEdit', { item = { command = edit.command } })
  end
  changed()
end

-- When to ask ------------------------------------------------------------------------------------

local check

local function schedule(wait_ms)
  if not due then
    due = assert(vim.uv.new_timer())
  end
  due:start(math.max(0, math.ceil(wait_ms)), 0, vim.schedule_wrap(function()
    check()
  end))
end

--- Look when it is time to ask, if it will be.
local function plan()
  if is_wanted then
    schedule(0)
  elseif edited_row then
    schedule(last_key + IDLE_MS - now_ms())
  end
end

local function forget()
  edited_row, is_wanted = nil, false
end

--- Ask as soon as that is possible, after something was accepted.
function M.want()
  edited_row, is_wanted, inserted, asked_at = nil, true, {}, nil
  plan()
end

--- Ask for the user, who hears why nothing comes.
function M.ask_by_hand()
  is_by_hand = true
  M.want()
end

---@return boolean whether a suggestion is asked for
local function is_completion_open(client, bufnr)
  for _, request in pairs(client.requests or {}) do
    if request.type == 'pending' and request.bufnr == bufnr and request.method == INLINE then
      return true
    end
  end
  return false
end

---@return boolean
local function may_ask(bufnr)
  local mode = vim.api.nvim_get_mode().mode
  local is_typing = vim.startswith(mode, 'i') or mode == 'n' or mode == 'niI'
  return config.options.next_edits
    and is_typing
    and buffers.suggests(bufnr)
    and not suggestions.is_snoozing()
    and vim.fn.pumvisible() == 0
    and vim.fn.reg_executing() == ''
    and not (vim.snippet and vim.snippet.active())
    and not suggestions.visible()
end

--- Say why nothing came, where the user has asked by hand.
local function tell_why_none(bufnr)
  if not is_by_hand then
    return
  end
  is_by_hand = false
  local function tell(why)
    vim.notify('speclsp: ' .. why .. '.')
  end
  if not config.options.next_edits then
    return tell('next edits are switched off by next_edits = false in setup()')
  elseif not buffers.suggests(bufnr) then
    return tell('suggestions are off in this buffer; :Speclsp toggle switches them on')
  elseif suggestions.is_snoozing() then
    return tell('suggestions are snoozed; :Speclsp snooze 0 ends that')
  elseif suggestions.visible() then
    return tell('a suggestion is at the cursor; dismiss it, then ask again')
  end
  server.statistics(function(stats)
    local reason = (stats.next_edits or ''):match('^none: (.*)')
    local none = reason and ('no next edits: %s; :Speclsp model edits lists models for them'):format(reason)
    tell(none or 'no next edit here')
  end)
end

local function ask(client, bufnr)
  cancel()
  local tick = vim.api.nvim_buf_get_changedtick(bufnr)
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.textDocument.version = vim.lsp.util.buf_versions[bufnr]
  local id
  id = server.request(client, NEXT_EDIT, params, function(err, result)
    if id ~= asking then
      return -- a newer one was asked for
    end
    asking = nil
    local edit = not err and type(result) == 'table' and (result.edits or {})[1]
    local is_current = vim.api.nvim_get_current_buf() == bufnr
    if not is_current or vim.api.nvim_buf_get_changedtick(bufnr) ~= tick then
      is_by_hand = false
      return
    end
    local changed_buf = edit and (edit.textDocument.uri == params.textDocument.uri and bufnr
      or buffer_of(client, edit.textDocument))
    if not changed_buf or not buffers.suggests(changed_buf) or suggestions.visible() then
      return tell_why_none(bufnr)
    end
    is_by_hand = false
    show(client, bufnr, changed_buf, edit)
  end, bufnr)
  asking = id
end

function check()
  if not (is_wanted or edited_row and now_ms() >= last_key + IDLE_MS) then
    return plan()
  end
  local bufnr = vim.api.nvim_get_current_buf()
  local client = server.client_of(bufnr)
  if not client or not may_ask(bufnr) then
    if is_by_hand then
      forget()
      tell_why_none(bufnr)
    end
    return -- the next key or move looks again
  end
  if is_completion_open(client, bufnr) then
    return schedule(POLL_MS)
  end
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  local place = ('%d %d %d %d'):format(bufnr, vim.api.nvim_buf_get_changedtick(bufnr), row, col)
  if place == asked_at then
    return forget()
  end
  asked_at = place
  forget()
  ask(client, bufnr)
end

--- Whether the latest change was an undo; in Insert mode there is none, and the tree is large.
local function is_undone(bufnr)
  if vim.startswith(vim.api.nvim_get_mode().mode, 'i') then
    return false
  end
  local tree = vim.api.nvim_buf_call(bufnr, vim.fn.undotree)
  return tree.seq_cur < tree.seq_last
end

--- Keep what is shown where a change types the next characters of a hunk.
---@return boolean kept else it is to be taken away
local function keep(row, col, is_within_line, n_new)
  local kept
  for idx, hunk in ipairs(shown.hunks) do
    if is_within_line and n_new > 0 and row >= hunk.first and row < hunk.last then
      local old = hunk.old
      local now = vim.api.nvim_buf_get_lines(shown.bufnr, hunk.first, hunk.last, false)
      local at = row - hunk.first + 1
      -- Lines of which each becomes another are looked at one by one.
      local is_paired = #hunk.lines == #old
      local function part(lines)
        return is_paired and lines[at] or table.concat(lines, '\n')
      end
      local typed_end = col + n_new
      if not is_paired then
        typed_end = typed_end + #table.concat(now, '\n', 1, at - 1) + (at > 1 and 1 or 0)
      end
      local wanted = part(hunk.lines)
      local function n_left(lines)
        local before, after = common(part(lines), wanted)
        return #part(lines) + #wanted - 2 * (before + after)
      end
      if common(part(now), wanted) >= typed_end and n_left(now) < n_left(old) then
        hunk.old = now
        kept = vim.deep_equal(now, hunk.lines) and idx or 0
      end
    end
  end
  if kept and kept > 0 then
    table.remove(shown.hunks, kept)
  end
  return kept ~= nil and #shown.hunks > 0
end

--- Do once what the changes of a turn ask for: `:%s` makes thousands.
local function settle()
  local bufnr, drops = turn.bufnr, turn.drops
  turn, is_by_hand = nil, false
  cancel()
  if vim.api.nvim_buf_is_valid(bufnr) and is_undone(bufnr) then
    -- Who undoes wants back what was there.
    forget()
    return M.drop()
  end
  if drops then
    M.drop()
  else
    draw()
  end
  plan()
end

local function on_bytes(_, bufnr, _, row, col, _, old_rows, _, old_bytes, new_rows, _, new_bytes)
  if is_applying or not (shown or config.options.next_edits) then
    return
  elseif shown and is_elsewhere(shown) then
    vim.schedule(M.drop)
  end
  if bufnr ~= vim.api.nvim_get_current_buf() or old_bytes + new_bytes == 0 then
    return
  end
  local is_first = not turn
  if not turn then
    turn = { bufnr = bufnr, drops = false }
    vim.schedule(settle)
  end
  if shown and shown.bufnr == bufnr and not is_elsewhere(shown) and not turn.drops then
    turn.drops = not keep(row, col, old_rows == 0 and new_rows == 0, new_bytes)
  end
  local now = now_ms()
  last_key = now
  inserted = vim.tbl_filter(function(one)
    return now - one.at <= PASTE_MS
  end, inserted)
  local latest = inserted[#inserted]
  if is_first or not latest then
    inserted[#inserted + 1] = { at = now, n_bytes = new_bytes, n_rows = new_rows }
  else
    latest.n_bytes, latest.n_rows = latest.n_bytes + new_bytes, latest.n_rows + new_rows
  end
  local n_bytes, n_rows = 0, 0
  for _, one in ipairs(inserted) do
    n_bytes, n_rows = n_bytes + one.n_bytes, n_rows + one.n_rows
  end
  local is_paste = n_bytes >= PASTE_BYTES or n_rows >= PASTE_LINES
  edited_row, is_wanted = not is_paste and row or nil, false
end

local function moved(bufnr)
  if not server.client_of(bufnr) then
    return
  end
  last_key = now_ms()
  if edited_row then
    is_wanted = row_of_cursor() ~= edited_row
  end
  if shown and shown.shown_in == bufnr then
    draw()
  end
  plan()
end

-- What keys do -----------------------------------------------------------------------------------

---@param edit speclsp.Edit
---@return integer rows by which the last hunk has moved
local function replace_lines(edit)
  insert.break_undo()
  local shift = 0
  for idx = #edit.hunks, 1, -1 do
    local hunk = edit.hunks[idx]
    vim.api.nvim_buf_set_lines(edit.bufnr, hunk.first, hunk.last, false, hunk.lines)
    shift = shift + (idx < #edit.hunks and #hunk.lines - #hunk.old or 0)
  end
  insert.break_undo()
  return shift
end

---@param edit speclsp.Edit
local function apply(edit)
  is_applying = true
  local ok, shift = pcall(replace_lines, edit)
  is_applying = false
  if not ok then
    error(shift, 0)
  end
  hide()
  -- The cursor goes behind what is new.
  local last = edit.hunks[#edit.hunks]
  local before, after = common(table.concat(last.old, '\n'), table.concat(last.lines, '\n'))
  local whole = table.concat(last.lines, '\n')
  local head = vim.split(whole:sub(1, math.max(before, #whole - after)), '\n', { plain = true })
  local row = math.min(last.first + shift + #head, vim.api.nvim_buf_line_count(edit.bufnr))
  vim.api.nvim_win_set_cursor(0, { row, #head[#head] })
  server.execute('speclsp.acceptedEdit', { edit.id })
  M.want()
end

--- Show the buffer of an edit: in a window that has it, else in this one, or beside it where this
--- one's buffer would be lost.
---@param edit speclsp.Edit
local function lead_to(edit)
  local win = vim.fn.bufwinid(edit.bufnr)
  if win ~= -1 then
    vim.api.nvim_set_current_win(win)
  elseif not pcall(vim.cmd.buffer, edit.bufnr) then
    vim.cmd.sbuffer(edit.bufnr) -- 'nohidden', and unsaved changes
  end
  edit.shown_in = edit.bufnr
end

---@param edit speclsp.Edit
local function go_to(edit)
  vim.cmd("normal! m'") -- so that <C-o> leads back
  if is_elsewhere(edit) then
    hide()
    is_leading = true
    local ok, why = pcall(lead_to, edit)
    is_leading = false
    if not ok then
      error(why, 0)
    elseif vim.api.nvim_buf_get_changedtick(edit.bufnr) ~= edit.tick then
      return
    end
    shown = edit
    changed()
  end
  local row = first_row(edit)
  local line = vim.api.nvim_buf_get_lines(edit.bufnr, row, row + 1, false)[1]
  vim.api.nvim_win_set_cursor(0, { row + 1, #line:match('^%s*') })
  vim.cmd('normal! zv')
  draw()
end

--- Go to a far edit, or apply a near one; false where none is shown.
---@return boolean
function M.accept()
  if not M.visible() or not vim.bo.modifiable then
    return false
  end
  local edit = assert(shown)
  return insert.soon(function()
    if shown ~= edit or not M.visible() then
      return false
    elseif not vim.api.nvim_buf_is_loaded(edit.bufnr) then
      M.drop()
      return false
    elseif is_elsewhere(edit) or distance() > NEAR then
      go_to(edit)
    else
      apply(edit)
    end
    return true
  end)
end

--- Take the edit away, and let the server propose it no more; false where none is shown.
---@return boolean
function M.decline()
  if not M.visible() then
    return false
  end
  local id = assert(shown).id
  M.drop()
  server.execute('speclsp.declinedEdit', { id })
  return true
end

--- What is shown, in a sentence.
---@return string|nil
function M.words()
  if not shown then
    return nil
  end
  local said = {}
  for _, hunk in ipairs(shown.hunks) do
    local old = vim.trim(table.concat(vim.tbl_map(vim.trim, hunk.old), ', '))
    local now = vim.trim(table.concat(vim.tbl_map(vim.trim, hunk.lines), ', '))
    local what = #hunk.lines == 0 and 'delete ' .. old
      or #hunk.old == 0 and 'insert ' .. now
      or ('replace %s by %s'):format(old, now)
    local file = is_elsewhere(shown) and shown.file .. ' ' or ''
    said[#said + 1] = ('%sline %d: %s'):format(file, hunk.first + 1, what)
  end
  return table.concat(said, '; ')
end

local function attach(_, bufnr)
  if not attached[bufnr] then
    attached[bufnr] = vim.api.nvim_buf_attach(bufnr, false, {
      on_bytes = on_bytes,
      on_reload = function()
        vim.schedule(M.drop)
      end,
      on_detach = function()
        attached[bufnr] = nil
        if shown and shown.bufnr == bufnr then
          vim.schedule(M.drop)
        end
      end,
    })
  end
end

function M.setup()
  table.insert(server.on_attach, attach)
  table.insert(server.on_answer, function(_, _, items)
    if #items > 0 then
      M.drop() -- ghost text comes first
    end
  end)
  suggestions.on_accept = M.want
  local group = vim.api.nvim_create_augroup('speclsp.edits', {})
  vim.api.nvim_create_autocmd({ 'CursorMoved', 'CursorMovedI' }, {
    group = group,
    callback = function(event)
      moved(event.buf)
    end,
  })
  vim.api.nvim_create_autocmd({ 'BufLeave', 'WinLeave' }, {
    group = group,
    callback = function()
      if is_leading then
        return
      end
      is_by_hand = false
      forget()
      M.drop()
    end,
  })
  vim.api.nvim_create_autocmd('User', {
    group = group,
    pattern = 'SpeclspStatus',
    callback = function()
      local is_there = server.status.state == 'ready' or server.status.state == 'unloaded'
      if shown and (not is_there or suggestions.is_snoozing() or not buffers.suggests(shown.shown_in)) then
        M.drop()
      end
    end,
  })
end

return M
