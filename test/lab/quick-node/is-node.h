/* Whether this process is Node.js. Other programs inherit the library, which then does nothing. */
extern char is_node __attribute__((visibility("hidden")));

/* Constructors that read `is_node` have a later priority than the one that sets it. */
#define AFTER_IS_NODE 102
