/*
 * The floor of a record write: temporary file, write, fsync, rename, fsync of the directory, in one loop and nothing
 * else. Each write has other content: the twelve `#` of the template become the number of the write.
 *
 *     recordFloor DIRECTORY TEMPLATE RECORDS WARM_UP_SECONDS SECONDS
 *
 * Prints one line of JSON: writes in all, timed ones, how many a second, and their latency. Ends with 1 on any error.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TIMED_MAX 4000000

static double latencies[TIMED_MAX];

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static int by_size(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static void fail(const char *step) {
  perror(step);
  exit(1);
}

static char *read_template(const char *path, size_t *length, char **mark) {
  FILE *file = fopen(path, "rb");
  if (!file) fail("open template");
  fseek(file, 0, SEEK_END);
  *length = (size_t)ftell(file);
  rewind(file);
  char *text = calloc(*length + 1, 1);
  if (!text || fread(text, 1, *length, file) != *length) fail("read template");
  fclose(file);
  *mark = strstr(text, "############");
  if (!*mark) fail("find the mark of the template");
  return text;
}

static void write_record(int directory, const char *text, size_t length, long number, int records) {
  char temporary[64], name[64];
  snprintf(temporary, sizeof temporary, ".record-%ld.tmp", number);
  snprintf(name, sizeof name, "record-%ld.json", number % records);
  int file = openat(directory, temporary, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) fail("open");
  if (write(file, text, length) != (ssize_t)length) fail("write");
  if (fsync(file) != 0) fail("fsync");
  if (close(file) != 0) fail("close");
  if (renameat(directory, temporary, directory, name) != 0) fail("rename");
  if (fsync(directory) != 0) fail("fsync of the directory");
}

int main(int count, char **arguments) {
  if (count != 6) {
    fprintf(stderr, "usage: recordFloor DIRECTORY TEMPLATE RECORDS WARM_UP_SECONDS SECONDS\n");
    return 2;
  }
  size_t length;
  char *mark, digits[24];
  char *text = read_template(arguments[2], &length, &mark);
  int directory = open(arguments[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) fail("open directory");
  int records = atoi(arguments[3]);
  double warm_up = atof(arguments[4]), seconds = atof(arguments[5]);
  double begun = now(), counted_from = 0;
  long writes = 0, timed = 0;
  for (;;) {
    double before = now();
    if (before - begun >= warm_up + seconds || timed == TIMED_MAX) break;
    snprintf(digits, sizeof digits, "%012ld", writes);
    memcpy(mark, digits, 12);
    write_record(directory, text, length, writes++, records);
    if (before - begun < warm_up) continue;
    if (timed == 0) counted_from = before;
    latencies[timed++] = now() - before;
  }
  double elapsed = now() - counted_from;
  if (timed == 0) {
    fprintf(stderr, "no write ended in time\n");
    return 1;
  }
  qsort(latencies, timed, sizeof(double), by_size);
  printf("{\"operationsAll\":%ld,\"operations\":%ld,\"perSecond\":%.1f,\"p50Millis\":%.4f,\"p99Millis\":%.4f}\n", writes,
         timed, timed / elapsed, latencies[timed / 2] * 1e3, latencies[(long)(timed * 0.99)] * 1e3);
  return 0;
}
