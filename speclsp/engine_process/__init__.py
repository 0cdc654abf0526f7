"""The engine process: one per user and set of engine settings, shared by all windows.

A window's server finds or starts the engine and talks to it over a Unix socket, or a port where
there are none:

- ``transport``: sockets, and how each side knows the other.
- ``place``: the user's folder, and the names of an engine's socket, lock, log and info file.
- ``start``: :func:`~speclsp.engine_process.start.connect` returns a connection to the engine, and
  starts the engine where none runs; it also asks engines for their status.
- ``lifetime``: :func:`~speclsp.engine_process.lifetime.run_engine` is the engine's main loop; it
  accepts windows, gives each to ``serve_window`` on a thread of its own, and ends the process.

- ``listening``: engines for windows of other machines, which come in by a door of their own, and
  ``tls``, which carries their connections.
- ``wire``: the messages of windows and engine, and the connection that carries them.
- ``client``: the completer of a window, which lives in the engine.
- ``restarts``: when a window starts an engine again that died.
- ``server``: ``serve_window``, with a completer for each window.

A connection begins with proofs of the token, at a port, and a greeting of one JSON line each way
(``start.Greeting``).
Then the socket belongs to the wire protocol of windows, or answers one command of
``speclsp engine``.

For a window::

    connection = connect(settings)      # settings that name files; blocks; EngineProcessError
    connection.socket                   # blocking; the greeting is over, the wire begins here
    log_tail(connection.place)          # the last lines of the engine's log

For the engine: ``run_engine(place, listener, settings, serve_window, status=…, close=…)``, where
``serve_window(socket)`` returns when the window has gone.
What is logged by :mod:`logging` in the engine's process goes to the engine's log file.
"""
