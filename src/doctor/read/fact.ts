import { errorText } from "../../base/error-text.ts";
import type { Fact } from "../facts.ts";

/** What `read` gives, or why it failed: one thing that cannot be read must not hide the others. */
export async function factOf<T>(read: () => T | Promise<T>): Promise<Fact<T>> {
  try {
    return { value: await read() };
  } catch (error) {
    return { unreadable: errorText(error) };
  }
}
