import type { ApiObject } from "../objects.ts";

type Fields = Readonly<Record<string, unknown>>;

const firstNodePort = 30_080;

/** Values that an API server assigns: cluster IPs of both families, node ports, UIDs and times. */
export class Allocator {
  #count = 0;

  admit(object: ApiObject): ApiObject {
    this.#count += 1;
    const { metadata } = object;
    const filled: ApiObject = {
      ...object,
      metadata: { ...metadata, uid: `uid-${this.#count}`, creationTimestamp: this.#time() },
    };
    return object.kind === "Service" ? { ...filled, ...this.#service(object) } : filled;
  }

  #time(): string {
    return new Date(Date.UTC(2026, 0, 1, 0, 0, this.#count)).toISOString().replace(".000Z", "Z");
  }

  #service(object: ApiObject): { readonly spec: Fields; readonly status: Fields } {
    const spec = object["spec"] as Fields;
    const isHeadless = spec["clusterIP"] === "None";
    const isDual = spec["ipFamilyPolicy"] === "PreferDualStack";
    const addresses = [`10.96.0.${20 + this.#count}`, `fd00:96::${20 + this.#count}`];
    const clusterIPs = isHeadless ? ["None"] : isDual ? addresses : addresses.slice(0, 1);
    const isNodePort = spec["type"] === "NodePort";
    const ports = (spec["ports"] as readonly Fields[]).map((port) => {
      return isNodePort ? { ...port, nodePort: firstNodePort + this.#count } : port;
    });
    return {
      spec: {
        type: "ClusterIP",
        sessionAffinity: "None",
        internalTrafficPolicy: "Cluster",
        ...(isNodePort ? { externalTrafficPolicy: "Cluster" } : {}),
        ...spec,
        clusterIP: clusterIPs[0],
        clusterIPs,
        ipFamilies: isDual ? ["IPv4", "IPv6"] : ["IPv4"],
        ports,
      },
      status: { loadBalancer: {} },
    };
  }
}
