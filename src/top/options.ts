/** Words of the command line. Apart, since the command line is read without the rest. */
export const topFormats = ["table", "json"] as const;
export const topSortKeys = ["connections", "in", "out", "active", "inactive", "name"] as const;
