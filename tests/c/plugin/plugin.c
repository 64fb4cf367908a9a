/* A library that pointers of a container lead to, in two builds: in the second everything lies
 * elsewhere, and one function is gone. */
#if PLUGIN_BUILD == 2
int plugin_padding[1000] = {1};
int plugin_filler(int value) { return value + plugin_padding[value]; }
#endif

const char* plugin_names[3] = {"zero", "one", "two"};
int plugin_add(int value) { return value + 1; }
#if PLUGIN_BUILD == 1
int plugin_old(int value) { return value - 1; }
#endif
