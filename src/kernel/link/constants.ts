/** rtnetlink constants: linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h. */
/** RTM_* */
export const messageTypes = {
  newLink: 16,
  deleteLink: 17,
  getLink: 18,
  setLink: 19,
  newAddress: 20,
  deleteAddress: 21,
  getAddress: 22,
  newRoute: 24,
  deleteRoute: 25,
  getRoute: 26,
  newRule: 32,
  deleteRule: 33,
  getRule: 34,
} as const;

/** RT_TABLE_MAIN and RTN_UNICAST: ordinary routes, not the routes that the kernel creates for local addresses. */
export const mainTable = 254;
export const unicastRoute = 1;

/** RT_TABLE_LOCAL, RTN_LOCAL and RT_SCOPE_HOST: the same values as in the kernel's own routes to local addresses. */
export const localTable = 255;
export const localRoute = 2;
export const hostScope = 254;

/**
 * LOOPBACK_IFINDEX, the same in every network namespace. Our local routes use loopback, which always keeps an address.
 * The kernel removes all routes of a link when its last address is removed (fib_inetaddr_event).
 */
export const loopbackIndex = 1;

/**
 * RTPROT_*: identifies the creator of a route. This number is unused in linux/rtnetlink.h and iproute2's rt_protos;
 * 75 is ASCII "K".
 */
export const ownRouteProtocol = 75;

/** RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV6_ROUTE */
export const watchedGroups: readonly number[] = [1, 5, 7, 9, 11];
