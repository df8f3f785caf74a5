/** A routing rule that selects packets by their mark (`ip rule add fwmark MARK/MASK lookup TABLE`). */
export interface MarkRule {
  readonly mark: number;
  readonly mask: number;
  /** Whether the rule selects the packets that do not have this mark. */
  readonly isNegated: boolean;
  readonly table: number;
}
