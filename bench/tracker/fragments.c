// Packets are put together, in the style of STAMP's intruder: fragments of many flows arrive in
// random order, each in a block of its own; a complete flow is assembled, searched and freed.
//
// tracker-fragments FLOWS PACKETS CHECKPOINTS: so many flows are under way at a time
#include <string.h>

#include "program.h"

enum { kFragmentsMax = 32, kDataMin = 16, kDataMax = 112 };

struct packet {
  struct packet* next;  ///< of the same flow, with a higher index
  uint64_t flow;
  uint16_t index;
  uint16_t count;  ///< of the flow
  uint32_t bytes;
  char data[];
};

struct flow {
  struct flow* next;  ///< in the same bucket
  uint64_t id;
  uint32_t received;
  uint32_t bytes;
  struct packet* packets;
};

/// What is still to be sent of a flow.
struct source {
  uint64_t flow;
  uint32_t unsent;  ///< a bit a fragment
  uint16_t count;
};

struct network {
  struct random_numbers random;
  struct source* sources;
  uint64_t source_count;
  uint64_t flows_begun;
};

struct decoder {
  struct flow** buckets;
  uint64_t mask;
  uint64_t searched;
  uint64_t attacks;
  uint64_t sum;
};

static void begin_flow(struct network* network, struct source* source) {
  source->flow = network->flows_begun++;
  source->count = (uint16_t)(1 + random_below(&network->random, kFragmentsMax));
  source->unsent = source->count == 32 ? ~0u : (1u << source->count) - 1;
}

static struct network begin_network(uint64_t flows) {
  struct network network = {random_from(7), allocate(flows * sizeof(struct source)), flows, 0};
  for (uint64_t i = 0; i < flows; ++i) begin_flow(&network, &network.sources[i]);
  return network;
}

/// One of the fragments that were not sent, of any flow.
static struct packet* next_packet(struct network* network) {
  struct source* source = &network->sources[random_below(&network->random, network->source_count)];
  uint32_t left = source->unsent;
  for (uint64_t skip = random_below(&network->random, (uint64_t)__builtin_popcount(left)); skip > 0;
       --skip)
    left &= left - 1;
  const uint16_t index = (uint16_t)__builtin_ctz(left);
  const uint64_t seed = scattered(source->flow * kFragmentsMax + index + 1);
  const uint32_t bytes = kDataMin + (uint32_t)(seed % (kDataMax - kDataMin + 1));
  struct packet* packet = allocate(sizeof(struct packet) + bytes);
  packet->next = NULL;
  packet->flow = source->flow;
  packet->index = index;
  packet->count = source->count;
  packet->bytes = bytes;
  memset(packet->data, (int)(seed >> 56), bytes);
  memcpy(packet->data, &seed, sizeof(seed));
  source->unsent &= ~(1u << index);
  if (source->unsent == 0) begin_flow(network, source);
  return packet;
}

static struct flow** find(struct decoder* decoder, uint64_t id) {
  struct flow** at = &decoder->buckets[scattered(id) & decoder->mask];
  while (*at != NULL && (*at)->id != id) at = &(*at)->next;
  return at;
}

static char* assembled(struct flow* flow) {
  char* data = allocate(flow->bytes);
  uint32_t at = 0;
  while (flow->packets != NULL) {
    struct packet* packet = flow->packets;
    memcpy(data + at, packet->data, packet->bytes);
    at += packet->bytes;
    flow->packets = packet->next;
    free(packet);
  }
  return data;
}

static void search(struct decoder* decoder, const char* data, uint32_t bytes) {
  uint64_t sum = bytes, word = 0;
  for (uint32_t at = 0; at + 8 <= bytes; at += 8) {
    memcpy(&word, data + at, sizeof(word));
    sum = mixed(sum, word);
  }
  ++decoder->searched;
  if (sum % 10 == 0) ++decoder->attacks;
  decoder->sum += sum;
}

static void receive(struct decoder* decoder, struct packet* packet) {
  struct flow** at = find(decoder, packet->flow);
  struct flow* flow = *at;
  if (flow == NULL) {
    flow = *at = allocate(sizeof(struct flow));
    *flow = (struct flow){.id = packet->flow};
  }
  struct packet** place = &flow->packets;
  while (*place != NULL && (*place)->index < packet->index) place = &(*place)->next;
  packet->next = *place;
  *place = packet;
  flow->bytes += packet->bytes;
  if (++flow->received < packet->count) return;
  const uint32_t bytes = flow->bytes;
  char* data = assembled(flow);
  *at = flow->next;
  free(flow);
  search(decoder, data, bytes);
  free(data);
}

int main(int argc, char** argv) {
  if (argc != 4) fail("tracker-fragments FLOWS PACKETS CHECKPOINTS");
  const uint64_t flows = number(argv[1]);
  const uint64_t packets = number(argv[2]);
  if (flows == 0 || packets == 0) fail("there is at least one flow, and one packet");
  struct run run = begin_run(packets, argv[3]);
  struct network network = begin_network(flows);
  uint64_t buckets = 1;
  while (buckets < flows) buckets *= 2;
  struct decoder decoder = {.mask = buckets - 1};
  decoder.buckets = calloc(buckets, sizeof(struct flow*));
  if (decoder.buckets == NULL) fail("out of memory");
  do receive(&decoder, next_packet(&network));
  while (step_done(&run));
  const struct times times = end_run(&run);
  print_result(times, mixed(mixed(decoder.sum, decoder.searched), decoder.attacks));
  return 0;
}
