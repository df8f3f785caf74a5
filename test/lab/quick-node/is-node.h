/* Whether this process is Node.js. Other programs inherit the library, and only pass it on. */
extern char is_node __attribute__((visibility("hidden")));

/* Constructors that ask come later than the one that looks. */
#define AFTER_IS_NODE 102
