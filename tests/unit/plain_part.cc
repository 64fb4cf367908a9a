// A part of events_test that reports nothing, and of which nobody says that it stores to no store.
int plain_part(int value);
int plain_part(int value) { return value; }
