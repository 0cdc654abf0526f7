"""The engine process: one per user and set of engine settings, shared by all windows.

A window's server finds or starts the engine and talks to it over a Unix socket:

- ``transport``: sockets and streams, and whose they are.
- ``place``: the user's folder, and the paths of an engine's socket, lock, log and info file.
- ``start``: :func:`~speclsp.engine_process.start.connect` returns a connection to the engine, and
  starts the engine where none runs; it also asks engines for their status.
- ``lifetime``: :class:`~speclsp.engine_process.lifetime.EngineLoop` is the engine's main loop; it
  accepts windows, serves each by ``serve_window``, and ends the process.
- ``listening``: the endpoint for windows of other machines, and their connection to it.
- ``wire``: the messages of windows and engine, and the connection that carries them.
- ``client``: :class:`~speclsp.engine_process.client.SharedCompleter`, the window's side, and
  ``shared_documents``, what it may send of documents and folders.
- ``restarts``: when a window restarts an engine that died.
- ``server``: ``serve_window``, the engine's side, with a completer for each window.

A connection begins with a greeting of one JSON line each way (``start.Greeting``).
Then the socket carries the messages of ``wire``, or the answer to one command of
``speclsp engine``.

What is logged by :mod:`logging` in the engine's process goes to the engine's log file.
"""
