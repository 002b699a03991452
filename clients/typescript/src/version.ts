/** Release of the client. */
export const VERSION = "1.0.139";
