/** Resolves to the promise's result, or to `other` if the promise rejects with an error that `isExpected` accepts. */
export async function orElse<Result, Other>(
  result: Promise<Result>,
  isExpected: (error: unknown) => boolean,
  other: Other,
): Promise<Result | Other> {
  try {
    return await result;
  } catch (error) {
    if (isExpected(error)) return other;
    throw error;
  }
}
