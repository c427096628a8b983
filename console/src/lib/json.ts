/**
 * JSON with line breaks and indents, every token as it was sent: numbers are never read, so 9007199254740993 and 1.0
 * stay what they are. Undefined when the text is no JSON object or array.
 */
export function prettyJson(text: string): string | undefined {
  const trimmed = text.trim();
  if (!trimmed.startsWith('{') && !trimmed.startsWith('[')) {
    return undefined;
  }
  try {
    JSON.parse(trimmed);
  } catch {
    return undefined;
  }
  const out: string[] = [];
  let depth = 0;
  let i = 0;
  const line = () => out.push(`\n${'  '.repeat(depth)}`);
  while (i < trimmed.length) {
    const c = trimmed[i] as string;
    if (c === '"') {
      const start = i;
      for (i++; trimmed[i] !== '"'; i++) {
        if (trimmed[i] === '\\') {
          i++;
        }
      }
      i++;
      out.push(trimmed.slice(start, i));
      continue;
    }
    if (c === '{' || c === '[') {
      const close = c === '{' ? '}' : ']';
      let next = i + 1;
      while (/\s/.test(trimmed[next] ?? '')) {
        next++;
      }
      if (trimmed[next] === close) {
        out.push(c + close);
        i = next + 1;
        continue;
      }
      out.push(c);
      depth++;
      line();
    } else if (c === '}' || c === ']') {
      depth--;
      line();
      out.push(c);
    } else if (c === ',') {
      out.push(c);
      line();
    } else if (c === ':') {
      out.push(': ');
    } else if (!/\s/.test(c)) {
      out.push(c);
    }
    i++;
  }
  return out.join('');
}
