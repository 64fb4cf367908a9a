/* A directed graph in memory: nodes and edges are blocks that point to each other. Commands come on
 * stdin, a line each:
 *
 *   link FROM TO     an edge, and the nodes that it needs
 *   unlink FROM TO
 *   drop NODE        with all edges from and to it
 *   path FROM TO     one with the fewest edges
 *   list             all nodes, with their edges
 *
 * An answer ends with a line "ok" or "error: …". The graph is gone with the process; graph.c is the
 * same program, durable. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBuckets = 1024, kNameBytes = 32, kLineBytes = 256, kWords = 3 };

struct edge {
  struct edge* next;
  struct node* to;
};

struct node {
  struct node* next; /* in its bucket */
  struct edge* edges;
  char name[kNameBytes];
  /* Of the search that came here last: from where, and who is next in its queue. */
  unsigned long search;
  struct node* from;
  struct node* queued;
};

struct graph {
  unsigned long searches;
  struct node* buckets[kBuckets];
};

static const char kNoMemory[] = "no memory";
static const char kNoNode[] = "no such node";

static struct graph* new_graph(void) {
  struct graph* graph = malloc(sizeof *graph);
  if (graph != NULL) *graph = (struct graph){0};
  return graph;
}

static struct node** bucket_of(struct graph* graph, const char* name) {
  uint32_t hash = 2166136261;
  for (; *name != '\0'; ++name) hash = (hash ^ (unsigned char)*name) * 16777619;
  return &graph->buckets[hash % kBuckets];
}

static struct node* find(struct graph* graph, const char* name) {
  struct node* node = *bucket_of(graph, name);
  while (node != NULL && strcmp(node->name, name) != 0) node = node->next;
  return node;
}

static struct node* find_or_add(struct graph* graph, const char* name) {
  struct node* node = find(graph, name);
  if (node != NULL || (node = malloc(sizeof *node)) == NULL) return node;
  struct node** bucket = bucket_of(graph, name);
  *node = (struct node){.next = *bucket};
  strcpy(node->name, name);
  return *bucket = node;
}

/* Where the edge is kept, or could be. */
static struct edge** edge_to(struct node* from, const struct node* to) {
  struct edge** edge = &from->edges;
  while (*edge != NULL && (*edge)->to != to) edge = &(*edge)->next;
  return edge;
}

static void remove_edge(struct edge** place) {
  struct edge* edge = *place;
  if (edge == NULL) return;
  *place = edge->next;
  free(edge);
}

static const char* add_edge(struct graph* graph, const char* from, const char* to) {
  struct node* a = find_or_add(graph, from);
  struct node* b = find_or_add(graph, to);
  if (a == NULL || b == NULL) return kNoMemory;
  struct edge** place = edge_to(a, b);
  if (*place != NULL) return NULL;
  struct edge* edge = malloc(sizeof *edge);
  if (edge == NULL) return kNoMemory;
  *edge = (struct edge){.to = b};
  *place = edge;
  return NULL;
}

static const char* unlink_nodes(struct graph* graph, const char* from, const char* to) {
  struct node* a = find(graph, from);
  struct node* b = find(graph, to);
  if (a == NULL || b == NULL) return kNoNode;
  remove_edge(edge_to(a, b));
  return NULL;
}

static const char* drop(struct graph* graph, const char* name) {
  struct node* dropped = find(graph, name);
  if (dropped == NULL) return kNoNode;
  for (int i = 0; i < kBuckets; ++i)
    for (struct node* node = graph->buckets[i]; node != NULL; node = node->next)
      remove_edge(edge_to(node, dropped));
  while (dropped->edges != NULL) remove_edge(&dropped->edges);
  struct node** place = bucket_of(graph, name);
  while (*place != dropped) place = &(*place)->next;
  *place = dropped->next;
  free(dropped);
  return NULL;
}

/* Breadth first. */
static const char* path(struct graph* graph, const char* from, const char* to) {
  struct node* begin = find(graph, from);
  struct node* end = find(graph, to);
  if (begin == NULL || end == NULL) return kNoNode;
  const unsigned long search = ++graph->searches;
  begin->search = search;
  begin->from = NULL;
  begin->queued = NULL;
  struct node* last = begin;
  for (struct node* node = begin; node != NULL && end->search != search; node = node->queued)
    for (struct edge* edge = node->edges; edge != NULL; edge = edge->next) {
      struct node* next = edge->to;
      if (next->search == search) continue;
      next->search = search;
      next->from = node;
      next->queued = NULL;
      last->queued = next;
      last = next;
    }
  if (end->search != search) return "no path";
  struct node* way = NULL; /* from its begin, by the links of the queue */
  for (struct node* node = end; node != NULL; node = node->from) {
    node->queued = way;
    way = node;
  }
  for (; way != NULL; way = way->queued) printf("%s\n", way->name);
  return NULL;
}

static const char* list(const struct graph* graph) {
  for (int i = 0; i < kBuckets; ++i)
    for (const struct node* node = graph->buckets[i]; node != NULL; node = node->next) {
      printf("%s:", node->name);
      for (const struct edge* edge = node->edges; edge != NULL; edge = edge->next)
        printf(" %s", edge->to->name);
      printf("\n");
    }
  return NULL;
}

/* NULL, or what is wrong. */
static const char* execute(struct graph* graph, char* line) {
  char* words[kWords];
  int count = 0;
  for (char* word = strtok(line, " \n"); word != NULL; word = strtok(NULL, " \n")) {
    if (count == kWords) return "too many words";
    if (strlen(word) >= kNameBytes) return "names have up to 31 bytes";
    words[count++] = word;
  }
  const bool has_two = count == 3;
  if (has_two && strcmp(words[0], "link") == 0) return add_edge(graph, words[1], words[2]);
  if (has_two && strcmp(words[0], "unlink") == 0) return unlink_nodes(graph, words[1], words[2]);
  if (has_two && strcmp(words[0], "path") == 0) return path(graph, words[1], words[2]);
  if (count == 2 && strcmp(words[0], "drop") == 0) return drop(graph, words[1]);
  if (count == 1 && strcmp(words[0], "list") == 0) return list(graph);
  return "link FROM TO, unlink FROM TO, drop NODE, path FROM TO, list";
}

static int fail(const char* what) {
  fprintf(stderr, "graph: %s\n", what);
  return 1;
}

int main(void) {
  struct graph* graph = new_graph();
  if (graph == NULL) return fail(kNoMemory);
  char line[kLineBytes];
  while (fgets(line, sizeof line, stdin) != NULL) {
    const char* wrong = execute(graph, line);
    printf("%s%s\n", wrong == NULL ? "ok" : "error: ", wrong == NULL ? "" : wrong);
    fflush(stdout);
  }
  return 0;
}
