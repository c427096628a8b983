/** What the audit log calls an operation, in words of people. */

const verbs = ['list', 'get', 'batchGet', 'create', 'update', 'delete'] as const;

/** `createRoleBinding` as create and roleBinding; undefined for what does not begin with a verb of these. */
export function partsOf(action: string): { verb: (typeof verbs)[number]; noun: string } | undefined {
  const verb = verbs.find((v) => action.startsWith(v) && /^[A-Z]/.test(action.slice(v.length)));
  if (!verb) {
    return undefined;
  }
  const rest = action.slice(verb.length);
  return { verb, noun: singular(rest.charAt(0).toLowerCase() + rest.slice(1)) };
}

function singular(noun: string): string {
  return noun.replace(/ies$/, 'y').replace(/([^s])s$/, '$1');
}

/** An operation that nobody gave words: its name with blanks, such as "do something new". */
export function spaced(action: string): string {
  return action
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1 $2')
    .split(' ')
    .map((w) => (/^[A-Z]{2,}$/.test(w) ? w : w.toLowerCase()))
    .join(' ');
}

/** The words for an action; `text` gives what a key says, or nothing. */
export function actionText(action: string, text: (key: string) => string | undefined): string {
  const whole = text(`audit_action.${action}`);
  if (whole) {
    return whole;
  }
  const parts = partsOf(action);
  const verb = parts && text(`audit_verb.${parts.verb}`);
  const noun = parts && text(`audit_noun.${parts.noun}`);
  return verb && noun ? verb.replace('…', noun) : spaced(action);
}
