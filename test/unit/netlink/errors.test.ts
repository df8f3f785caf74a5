import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  isAlreadyExists,
  isInvalid,
  isNotFound,
  isUnsupported,
  NetlinkError,
  type NetlinkErrorFacts,
} from "../../../src/netlink/errors.ts";

const base = { operation: "create virtual server", subject: "TCP 10.96.0.1:443" };

describe("the message of a NetlinkError", () => {
  const cases: readonly { name: string; facts: NetlinkErrorFacts; message: string }[] = [
    {
      name: "contains action, subject and code",
      facts: { ...base, errno: 17 },
      message: "Cannot create virtual server TCP 10.96.0.1:443: EEXIST",
    },
    {
      name: "adds the meaning of the error",
      facts: { ...base, errno: 3, meaning: "no such virtual server" },
      message: "Cannot create virtual server TCP 10.96.0.1:443: ESRCH (no such virtual server)",
    },
    {
      name: "prefers the kernel's own message",
      facts: { ...base, errno: 22, meaning: "ours", kernelMessage: "Invalid netmask" },
      message: "Cannot create virtual server TCP 10.96.0.1:443: EINVAL (Invalid netmask)",
    },
    {
      name: "gives the position of the rejected attribute in the request",
      facts: { ...base, errno: 22, kernelMessage: "Invalid netmask", attributeOffset: 36 },
      message:
        "Cannot create virtual server TCP 10.96.0.1:443: EINVAL " +
        "(Invalid netmask; rejected attribute at byte 36 of the request)",
    },
    {
      name: "gives the position of the rejected attribute if the kernel sent no message",
      facts: { ...base, errno: 22, attributeOffset: 36 },
      message:
        "Cannot create virtual server TCP 10.96.0.1:443: EINVAL " +
        "(rejected attribute at byte 36 of the request)",
    },
    {
      name: "may have no subject",
      facts: { operation: "list virtual servers", subject: "", errno: 1 },
      message: "Cannot list virtual servers: EPERM",
    },
    {
      name: "accepts a private code",
      facts: { ...base, errno: 4103, code: "IPSET_ERR_EXIST" },
      message: "Cannot create virtual server TCP 10.96.0.1:443: IPSET_ERR_EXIST",
    },
    {
      name: "contains the number if there is no name",
      facts: { ...base, errno: 4999 },
      message: "Cannot create virtual server TCP 10.96.0.1:443: errno 4999",
    },
  ];
  for (const { name, facts, message } of cases) {
    it(name, () => assert.equal(new NetlinkError(facts).message, message));
  }
});

describe("predicates", () => {
  const cases: readonly { errno: number; holds: readonly ((error: unknown) => boolean)[] }[] = [
    { errno: 17, holds: [isAlreadyExists] },
    { errno: 2, holds: [isNotFound] },
    { errno: 3, holds: [isNotFound] },
    { errno: 19, holds: [isNotFound] },
    { errno: 99, holds: [isNotFound] },
    { errno: 22, holds: [isInvalid] },
    { errno: 95, holds: [isUnsupported] },
    { errno: 97, holds: [isUnsupported] },
    { errno: 105, holds: [] },
    { errno: 110, holds: [] },
  ];
  const all = [isAlreadyExists, isNotFound, isInvalid, isUnsupported];
  for (const { errno, holds } of cases) {
    const error = new NetlinkError({ ...base, errno });
    it(`${error.code}: ${holds.map(({ name }) => name).join(", ")} and no other`, () => {
      assert.deepEqual(
        all.filter((predicate) => predicate(error)),
        holds,
      );
    });
  }

  it("other errors match none", () => {
    assert.deepEqual(
      all.filter((predicate) => predicate(new Error("EEXIST"))),
      [],
    );
  });
});
