/* What `memtrace record` says at the end: a line for each run that came of the program, and why there is none. */
#ifndef MT_CLI_RECORD_REPORT_H
#define MT_CLI_RECORD_REPORT_H

/* Reads the answers in the file and prints notes on stderr. Runs were asked to go to `trace`, as the user wrote it,
 * which is at `path`. */
void mt_record_report(const char *answers, const char *trace, const char *path);

#endif
