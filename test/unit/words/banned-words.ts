/** Words that no reader should have to learn: those of the field say the same. */

/** Each with what to write instead. */
export const bannedWords: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [/[«»‹›“”]/u, "straight quotes"],
  [/\banew\b/i, "again, recreate"],
  [/\bis told\b|\btells?\b|\btold\b/i, "report, notify, last known"],
  [/\b(?:a|quick) look\b|\blooks? (?:at|after)\b/i, "check, probe"],
  [/\bsomebody\b|\bby others\b|\bothers (?:have|change|undo)/i, "third party"],
  [/\bmust be (?:a )?text\b|\blist of texts\b/i, "string"],
  [/\bdoubt(?:s|ed|ful)?\b|\bheld list/i, "quarantined list, relist guard"],
  [/\bspare memory\b|\bkeep room\b/i, "trim memory"],
  [/\blost state\b/i, "detected drift"],
  [/\brepair storm|\bheld repairs?\b|\bheld back\b/i, "suppressed repairs"],
  [/\bidle (?:field|flag)|\bloose flag/i, "ignored field, flag-only option"],
  [/\bages? of (?:a |the )?drain|\bdrain[- ]ages?\b/i, "drain start time"],
  [/\bdoorbell\b|\boutbox\b/i, "wake-up, completion queue"],
  [/\bstale (?:UDP )?flows?\b|\btracked flow|\bflow sweeper\b/i, "stale conntrack entries"],
  [/\bmisfit\b|\blead around\b/i, "incompatible, redirect rules"],
  [/\bvain watch/i, "failed watch"],
  [/\brehears/i, "dry run"],
  [/\btime-outs?\b|\bback end\b|\bstart-up\b/i, "timeout, backend, startup"],
  [/\b(?:is|are) no (?:address|list|number|port|unicast)\b/i, "is not a ..."],
  [/\bis none of\b|\bwith(?:out)? a word\b/i, "is not one of"],
  [/\bgo(?:es|ing)? on without\b|\bcannot go on\b/i, "continue"],
  [/\btrying again\b|\btried again\b/i, "retrying"],
  [/\bby lot\b|\bmended\b|\bno way: /i, "at random, fixed, cannot be turned off"],
  [/\bis there already\b|\bit is there\b/i, "exists"],
];
