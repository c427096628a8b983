import { Button } from 'antd';
import { useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got } from '../../../api/client';
import { type ApiProblem, asProblem } from '../../../api/problem';
import { saveText } from '../../data';
import type { AuditSearch } from '../../search';
import { ProblemView } from '../../ui';
import { auditQuery } from './query';

/** More than this is for a program to read page by page; a tab would hold all of it in memory. */
const most = 100_000;

/** Saves the events that the filters leave as a file, one JSON object a line, newest first. */
export function Export({ search }: { search: AuditSearch }) {
  const { t } = useTranslation();
  const [read, setRead] = useState<number>();
  const [cut, setCut] = useState(false);
  const [problem, setProblem] = useState<ApiProblem>();
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);

  async function run() {
    const leave = new AbortController();
    stop.current = leave;
    setRead(0);
    setCut(false);
    setProblem(undefined);
    try {
      const lines: string[] = [];
      let page_token: string | undefined;
      do {
        const page = await got(
          api.GET('/v1/audit-events', {
            params: { query: { ...auditQuery(search), page_size: 1000, page_token } },
            signal: leave.signal,
          }),
        );
        lines.push(...page.items.map((e) => JSON.stringify(e)));
        setRead(lines.length);
        page_token = page.next_page_token;
      } while (page_token && lines.length < most);
      setCut(page_token !== undefined);
      saveText(lines.map((l) => `${l}\n`).join(''), 'sluice-audit.ndjson', 'application/x-ndjson');
    } catch (err) {
      if (!leave.signal.aborted) {
        setProblem(asProblem(err));
      }
    } finally {
      stop.current = undefined;
      setRead(undefined);
    }
  }

  return (
    <>
      {problem && <ProblemView problem={problem} />}
      <Button loading={read !== undefined} onClick={() => void run()} data-testid="export-audit">
        {t('audit.download')}
      </Button>
      <span role="status" className="muted">
        {read !== undefined && t('audit.reading', { n: String(read) })}
        {cut && t('audit.cut', { n: String(most) })}
      </span>
    </>
  );
}
