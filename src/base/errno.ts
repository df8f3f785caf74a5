/** Names of error numbers, as in errno(3). */
import { constants } from "node:os";

/** Numbers that have two names on Linux, with the name that the kernel's documentation uses. */
const preferredNames: Readonly<Record<number, string>> = { 11: "EAGAIN", 95: "EOPNOTSUPP" };

/** Error numbers that occur in netlink replies but have no name in Node.js (asm-generic/errno.h). */
const namesMissingInRuntime: Readonly<Record<number, string>> = {
  44: "ECHRNG",
  65: "ENOPKG",
  81: "ELIBBAD",
  112: "EHOSTDOWN",
  117: "EUCLEAN",
  524: "ENOTSUPP",
};

const nameByNumber: ReadonlyMap<number, string> = new Map([
  ...Object.entries(constants.errno).map(([name, number]) => [number, name] as const),
  ...Object.entries({ ...preferredNames, ...namesMissingInRuntime }).map(
    ([number, name]) => [Number(number), name] as const,
  ),
]);

/** Error numbers that the program checks for (asm-generic/errno.h; the same on every architecture we build for). */
export const errno = {
  EPERM: 1,
  ENOENT: 2,
  ESRCH: 3,
  EBADF: 9,
  EAGAIN: 11,
  EACCES: 13,
  EBUSY: 16,
  EEXIST: 17,
  ENODEV: 19,
  EINVAL: 22,
  EMSGSIZE: 90,
  EOPNOTSUPP: 95,
  EAFNOSUPPORT: 97,
  EADDRNOTAVAIL: 99,
  ENOBUFS: 105,
  ETIMEDOUT: 110,
} as const;

/** Returns `EEXIST` for 17, and `errno 4097` for a number without a name. */
export function errnoName(number: number): string {
  return nameByNumber.get(number) ?? `errno ${number}`;
}
