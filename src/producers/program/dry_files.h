/* The folder for files that the program's Python code would write elsewhere (python/memtrace/dry/overlay.py). A job has
 * one folder, which its ranks share. */
#pragma once

/* Removes empty folders that the program has created elsewhere. A file in `folder` lists them. */
void mt_dry_files_end(const char *folder);
