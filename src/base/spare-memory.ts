/** What a process does about its own memory when the work of a phase is over; what is needed again comes back by itself. */
export type SpareMemory = (phase: "before-lists" | "after-full-sync") => void;
