/* The folder of a dry run's files: what the program's Python code would write elsewhere (python/memtrace/dry/overlay.py). One job
 * has one, which its ranks share. */
#pragma once

/* Removes those folders that the program has made elsewhere and that are empty, which a file in its folder lists. */
void mt_dry_files_end(const char *folder);
