// The six array-based structures of the paper's Table 3, in the memory at poroot.
#include <cstdio>
#include <cstring>

#include <perdura/compat/simpo.hpp>

namespace corpus_table3 {

constexpr int kCapacity = 100;
constexpr int kNone = -1;

class Array : public POBase {
 public:
  explicit Array(int poid = 0) : POBase(kCapacity * sizeof(int), poid) {}

  void increaseAll() {  // expect: deferrable
    for (int i = 0; i < kCapacity; ++i) ++cells()[i];
  }
  void zero() {  // expect: deferrable
    std::memset(poroot, 0, kCapacity * sizeof(int));
  }
  void printAllCells() {  // expect: instant
    for (int i = 0; i < kCapacity; ++i)
      std::printf("%d ", cells()[i]);  // because: printAllCells no_source
  }

 private:
  int* cells() { return static_cast<int*>(poroot); }
};

class Stack : public POBase {
 public:
  explicit Stack(int poid = 0) : POBase(sizeof(Contents), poid) {}

  void push(int value) {  // expect: deferrable
    Contents& stack = contents();
    if (stack.count < kCapacity) stack.values[stack.count++] = value;
  }
  int pop() {  // expect: instant; because: pop returns
    Contents& stack = contents();
    return stack.count == 0 ? kNone : stack.values[--stack.count];
  }
  int peek() const {  // expect: read
    const Contents& stack = contents();
    return stack.count == 0 ? kNone : stack.values[stack.count - 1];
  }
  bool isStackEmpty() const {  // expect: read
    return contents().count == 0;
  }

 private:
  struct Contents {
    int count;
    int values[kCapacity];
  };
  Contents& contents() const { return *static_cast<Contents*>(poroot); }
};

class Queue : public POBase {
 public:
  explicit Queue(int poid = 0) : POBase(sizeof(Ring), poid) {}

  void clearQueue() {  // expect: deferrable
    ring()->head = 0;
    ring()->count = 0;
  }
  void enQueue(int value) {  // expect: deferrable
    Ring* const at = ring();
    if (at->count == kCapacity) return;
    at->values[(at->head + at->count++) % kCapacity] = value;
  }
  int deQueue() {  // expect: instant; because: deQueue returns
    Ring* const at = ring();
    if (at->count == 0) return kNone;
    const int value = at->values[at->head];
    at->head = (at->head + 1) % kCapacity;
    --at->count;
    return value;
  }
  bool isQueueEmpty() const {  // expect: read
    return ring()->count == 0;
  }
  bool isFull() const {  // expect: read
    return ring()->count == kCapacity;
  }

 private:
  struct Ring {
    int head;
    int count;
    int values[kCapacity];
  };
  Ring* ring() const { return static_cast<Ring*>(poroot); }
};

// Nodes are named by their index plus one, so that zeros are an empty tree.
class Tree : public POBase {
 public:
  explicit Tree(int poid = 0) : POBase(sizeof(Contents), poid) {}

  void insertElement(int key) {  // expect: deferrable
    Contents& tree = contents();
    int* link = find(tree, key);
    if (*link != 0) return;
    const int made = take(tree);
    if (made == 0) return;
    tree.nodes[made - 1] = Node{key, 0, 0};
    *link = made;
  }
  void deleteElement(int key) {  // expect: deferrable
    Contents& tree = contents();
    int* link = find(tree, key);
    if (*link == 0) return;
    const int gone = *link;
    Node& node = tree.nodes[gone - 1];
    if (node.left == 0 || node.right == 0) {
      *link = node.left == 0 ? node.right : node.left;
      give(tree, gone);
      return;
    }
    int* next = &node.right;
    while (tree.nodes[*next - 1].left != 0) next = &tree.nodes[*next - 1].left;
    const int moved = *next;
    node.key = tree.nodes[moved - 1].key;
    *next = tree.nodes[moved - 1].right;
    give(tree, moved);
  }
  void balance() {  // expect: deferrable
    Contents& tree = contents();
    int order[kCapacity];
    int count = 0;
    list(tree, tree.root, order, count);
    tree.root = build(tree, order, 0, count);
  }
  bool searchElement(int key) const {  // expect: read
    const Contents& tree = contents();
    int at = tree.root;
    while (at != 0) {
      const Node& node = tree.nodes[at - 1];
      if (node.key == key) return true;
      at = key < node.key ? node.left : node.right;
    }
    return false;
  }

 private:
  struct Node {
    int key;
    int left;
    int right;
  };
  struct Contents {
    int root;
    int used;
    int free;
    Node nodes[kCapacity];
  };
  static int* find(Contents& tree, int key) {
    int* link = &tree.root;
    while (*link != 0 && tree.nodes[*link - 1].key != key) {
      Node& node = tree.nodes[*link - 1];
      link = key < node.key ? &node.left : &node.right;
    }
    return link;
  }
  static int take(Contents& tree) {
    if (tree.free != 0) {
      const int taken = tree.free;
      tree.free = tree.nodes[taken - 1].left;
      return taken;
    }
    return tree.used == kCapacity ? 0 : ++tree.used;
  }
  static void give(Contents& tree, int index) {
    tree.nodes[index - 1].left = tree.free;
    tree.free = index;
  }
  static void list(const Contents& tree, int at, int* order, int& count) {
    if (at == 0) return;
    list(tree, tree.nodes[at - 1].left, order, count);
    order[count++] = at;
    list(tree, tree.nodes[at - 1].right, order, count);
  }
  static int build(Contents& tree, const int* order, int first, int last) {
    if (first == last) return 0;
    const int middle = first + (last - first) / 2;
    Node& node = tree.nodes[order[middle] - 1];
    node.left = build(tree, order, first, middle);
    node.right = build(tree, order, middle + 1, last);
    return order[middle];
  }
  Contents& contents() const { return *static_cast<Contents*>(poroot); }
};

class Heap : public POBase {
 public:
  explicit Heap(int poid = 0) : POBase(sizeof(Contents), poid) {}

  void enHeap(int value) {  // expect: deferrable
    Contents& heap = contents();
    if (heap.count == kCapacity) return;
    int at = heap.count++;
    while (at > 0 && heap.values[(at - 1) / 2] > value) {
      heap.values[at] = heap.values[(at - 1) / 2];
      at = (at - 1) / 2;
    }
    heap.values[at] = value;
  }
  int deHeap() {  // expect: instant; because: deHeap returns
    Contents& heap = contents();
    if (heap.count == 0) return kNone;
    const int least = heap.values[0];
    const int last = heap.values[--heap.count];
    int at = 0;
    for (int child = 1; child < heap.count; child = 2 * at + 1) {
      if (child + 1 < heap.count && heap.values[child + 1] < heap.values[child]) ++child;
      if (last <= heap.values[child]) break;
      heap.values[at] = heap.values[child];
      at = child;
    }
    heap.values[at] = last;
    return least;
  }
  int getNumElements() const {  // expect: read
    return contents().count;
  }

 private:
  struct Contents {
    int count;
    int values[kCapacity];
  };
  Contents& contents() const { return *static_cast<Contents*>(poroot); }
};

// Edges of a vertex are a list of indices plus one.
class Graph : public POBase {
 public:
  explicit Graph(int poid = 0) : POBase(sizeof(Contents), poid) {}

  void joinwt(int from, int to, int weight) {  // expect: deferrable
    Contents& graph = contents();
    if (const int known = edge(graph, from, to); known != 0) {
      graph.edges[known - 1].weight = weight;
      return;
    }
    int made = graph.free;
    if (made != 0) {
      graph.free = graph.edges[made - 1].next;
    } else {
      if (graph.used == kEdges) return;
      made = ++graph.used;
    }
    graph.edges[made - 1] = {to, weight, graph.first[from]};
    graph.first[from] = made;
  }
  void removewt(int from, int to) {  // expect: deferrable
    Contents& graph = contents();
    for (int* link = &graph.first[from]; *link != 0; link = &graph.edges[*link - 1].next) {
      const int at = *link;
      if (graph.edges[at - 1].to != to) continue;
      *link = graph.edges[at - 1].next;
      graph.edges[at - 1].next = graph.free;
      graph.free = at;
      return;
    }
  }
  bool adjacent(int from, int to) const {  // expect: read
    return edge(contents(), from, to) != 0;
  }
  void printAll() const {  // expect: instant
    for (int from = 0; from < kCapacity; ++from) {
      for (int at = contents().first[from]; at != 0; at = contents().edges[at - 1].next) {
        const Edge& each = contents().edges[at - 1];
        std::printf("%d-%d %d\n", from, each.to, each.weight);  // because: printAll no_source
      }
    }
  }

 private:
  static constexpr int kEdges = 4 * kCapacity;
  struct Edge {
    int to;
    int weight;
    int next;
  };
  struct Contents {
    int used;
    int free;
    int first[kCapacity];
    Edge edges[kEdges];
  };
  static int edge(const Contents& graph, int from, int to) {
    int at = graph.first[from];
    while (at != 0 && graph.edges[at - 1].to != to) at = graph.edges[at - 1].next;
    return at;
  }
  Contents& contents() const { return *static_cast<Contents*>(poroot); }
};

}  // namespace corpus_table3
