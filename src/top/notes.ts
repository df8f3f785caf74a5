/** What a reader must know of the figures. Pure. */

export interface Shortcomings {
  readonly isCounting: boolean;
  readonly missingNames: string | undefined;
}

export function notesOf({ isCounting, missingNames }: Shortcomings): readonly string[] {
  return [
    ...(isCounting
      ? []
      : [
          "The estimator is off (net.ipv4.vs.run_estimation=0): the kernel adds up no connections, packets or bytes; " +
            "active and inactive connections are right",
        ]),
    ...(missingNames === undefined ? [] : [`No names of Services: ${missingNames}`]),
  ];
}
