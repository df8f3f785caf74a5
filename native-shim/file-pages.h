/*
 * Giving back pages of files that the process has mapped and not changed: the program's own code and
 * constants. Most of what the start touches is never needed again, and what is comes back from the
 * page cache by itself.
 */
#ifndef FILE_PAGES_H
#define FILE_PAGES_H

/*
 * Gives them back with MADV_DONTNEED, of every mapping that is a file's, cannot be written and has no
 * page of its own (relocated data, or code that was moved into memory, does). Returns how many
 * kilobytes were resident in those mappings: none where /proc/self/smaps cannot be read.
 */
long release_file_pages(void);

#endif
