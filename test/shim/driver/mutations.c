/*
 * Tests the receive loop with damaged datagrams, which are random or recorded. The seed is fixed,
 * so that failures are reproducible.
 */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "check.h"

enum { MOST_DATAGRAMS = 8, MOST_BYTES = 4096, LAST_SEQUENCE = 5, MOST_RECORDED = 512 };

/* xorshift64, Marsaglia 2003. */
static uint64_t state = 0x9e3779b97f4a7c15;
static uint32_t draw(uint32_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 32) % below;
}

/* Datagrams recorded from the real kernel. Datagrams that are too long for a round are skipped. */
static struct {
  uint8_t bytes[MOST_BYTES];
  size_t length;
} recorded[MOST_RECORDED];
static uint32_t recorded_count;

/* Reads the bytes after the first word of a line such as `received 14 00 …`. */
static size_t read_hex(const char *text, uint8_t *bytes) {
  size_t length = 0;
  int taken = 0;
  unsigned byte;
  while (length < MOST_BYTES && sscanf(text, " %2x%n", &byte, &taken) == 1) {
    bytes[length++] = (uint8_t)byte;
    text += taken;
  }
  return sscanf(text, " %2x", &byte) == 1 ? 0 : length;
}

int load_recording(const char *path) {
  static const char word[] = "received ";
  FILE *file = fopen(path, "r");
  CHECK(file != NULL);
  char *line = NULL;
  size_t capacity = 0;
  int count = 0;
  while (getline(&line, &capacity, file) > 0 && recorded_count < MOST_RECORDED) {
    if (strncmp(line, word, sizeof word - 1) != 0) continue;
    size_t length = read_hex(line + sizeof word - 1, recorded[recorded_count].bytes);
    if (length == 0) continue;
    recorded[recorded_count++].length = length;
    count++;
  }
  free(line);
  fclose(file);
  return count;
}

/* Copies a recorded datagram, and replaces its messages' sequence numbers with this driver's. */
static size_t take_recorded(uint8_t *bytes) {
  uint32_t which = draw(recorded_count);
  size_t length = recorded[which].length;
  memcpy(bytes, recorded[which].bytes, length);
  struct nlmsghdr header;
  for (size_t at = 0; at + sizeof header <= length; at += NLMSG_ALIGN((size_t)header.nlmsg_len)) {
    memcpy(&header, bytes + at, sizeof header);
    if (header.nlmsg_len < sizeof header) break;
    header.nlmsg_seq = draw(LAST_SEQUENCE + 2);
    memcpy(bytes + at, &header, sizeof header);
  }
  return length;
}

/*
 * Writes a few well-formed messages. The last sequence number and the types that end a reply are
 * frequent.
 */
static size_t make_datagram(uint8_t *bytes) {
  static const uint16_t types[] = {NLMSG_NOOP, NLMSG_ERROR, NLMSG_DONE, 0x14, 0x1c};
  if (recorded_count > 0 && draw(2) == 0) return take_recorded(bytes);
  size_t length = 0;
  for (uint32_t left = draw(5); left > 0; left--) {
    size_t payload = draw(300);
    length += put_message(bytes + length, types[draw(5)], draw(LAST_SEQUENCE + 2), payload);
    while (length % 4 != 0 && draw(16) != 0) bytes[length++] = 0;
  }
  return length;
}

static size_t damage(uint8_t *bytes, size_t length) {
  for (uint32_t left = draw(4); left > 0 && length > 0; left--) {
    size_t at = draw((uint32_t)length);
    switch (draw(4)) {
      case 0:
        bytes[at] = (uint8_t)draw(256);
        break;
      case 1:
        bytes[at] ^= (uint8_t)(1u << draw(8));
        break;
      case 2:
        length = at;
        break;
      default:
        memset(bytes + at, draw(2) == 0 ? 0 : 0xff, length - at < 4 ? length - at : 4);
    }
  }
  return length;
}

/*
 * The expected result: the datagrams, each at a multiple of four, up to the point where the loop
 * stopped.
 */
struct played {
  uint8_t bytes[MOST_DATAGRAMS * MOST_BYTES];
  size_t ends[MOST_DATAGRAMS];
  uint32_t count;
};

static void play_random(struct pair pair, struct played *played) {
  size_t at = 0;
  played->count = draw(MOST_DATAGRAMS);
  memset(played->bytes, 0, sizeof played->bytes);
  for (uint32_t index = 0; index < played->count; index++) {
    at = (at + 3) & ~(size_t)3;
    size_t length = make_datagram(played->bytes + at);
    size_t kept = draw(3) == 0 ? length : damage(played->bytes + at, length);
    memset(played->bytes + at + kept, 0, length - kept);
    play(pair, played->bytes + at, kept);
    at += kept;
    played->ends[index] = at;
  }
}

static bool is_an_end(const struct played *played, size_t length) {
  for (uint32_t index = 0; index < played->count; index++)
    if (played->ends[index] == length || ((played->ends[index] + 3) & ~(size_t)3) == length)
      return true;
  return length == 0;
}

/* Whether the bytes contain an ending message at any multiple of four. */
static bool holds_an_end(const struct reply_buffer *replies) {
  for (size_t at = 0; at + sizeof(struct nlmsghdr) <= replies->length; at += 4) {
    struct nlmsghdr header;
    memcpy(&header, replies->bytes + at, sizeof header);
    bool ends = header.nlmsg_type == NLMSG_ERROR || header.nlmsg_type == NLMSG_DONE;
    if (ends && header.nlmsg_seq == LAST_SEQUENCE) return true;
  }
  return false;
}

/* The wake descriptor is readable, so the loop ends with ECANCELED instead of waiting. */
static void run_round(int wake_fd, struct played *played) {
  struct pair pair = open_pair();
  play_random(pair, played);
  struct exchange exchange = exchange_for(LAST_SEQUENCE, 60000);
  exchange_run(&exchange, pair.fd, wake_fd);
  CHECK(exchange.error == 0 || exchange.error == EBADMSG || exchange.error == ECANCELED);
  CHECK(is_an_end(played, exchange.replies.length));
  if (exchange.error == 0) CHECK(holds_an_end(&exchange.replies));
  if (exchange.error == ECANCELED && played->count > 0)
    CHECK(exchange.replies.length >= played->ends[played->count - 1]);
  if (exchange.replies.length > 0)
    CHECK(memcmp(exchange.replies.bytes, played->bytes, exchange.replies.length) == 0);
  reply_buffer_free(&exchange.replies);
  close_pair(pair);
}

void run_mutations(int rounds) {
  struct played *played = malloc(sizeof *played);
  int wake_fd = eventfd(1, EFD_CLOEXEC);
  CHECK(played != NULL && wake_fd >= 0);
  for (int round = 0; round < rounds; round++) run_round(wake_fd, played);
  close(wake_fd);
  free(played);
}
