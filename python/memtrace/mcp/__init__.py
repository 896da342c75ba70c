"""`memtrace mcp`: questions about GPU memory for coding agents, over the Model Context Protocol (docs/mcp.md).

    __main__   the command: its options, and its message if the protocol's SDK is not installed
    tools      the tools: each runs one command of memtrace
    folder     the folders whose files tools may use
    limited    runs a command under limits, through `guard`, a process of its own
    answer     selects the fields of a command's JSON to return, in at most 2 KB
"""
