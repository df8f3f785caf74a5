/** Names of error numbers, as errno(3) has them. */
import { constants } from "node:os";

/** Two names share one number on Linux; these are the ones the kernel's own documents use. */
const preferredNames: Readonly<Record<number, string>> = { 11: "EAGAIN", 95: "EOPNOTSUPP" };

/** Met in netlink replies and unknown to the runtime (asm-generic/errno.h). */
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

/** Error numbers that the program itself compares with (asm-generic/errno.h; equal on every port we build). */
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

/** `EEXIST` for 17; a number without a name gives `errno 4097`. */
export function errnoName(number: number): string {
  return nameByNumber.get(number) ?? `errno ${number}`;
}
