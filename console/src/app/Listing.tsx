import type { UseQueryResult } from '@tanstack/react-query';
import { Button, type TableProps } from 'antd';
import { useTranslation } from 'react-i18next';
import { DataTable, Nothing, Outcome, Pager } from './ui';

/** A list of the server, a page at a time. `onClear` is given while a filter is set: then "none" means "none of these". */
export function Listing<T extends { id: string }>(props: {
  query: UseQueryResult<{ items: T[]; next_page_token?: string }>;
  label: string;
  columns: TableProps<T>['columns'];
  expandable?: TableProps<T>['expandable'];
  empty: string;
  onClear?: () => void;
  page: string | undefined;
  onPage: (token: string | undefined) => void;
}) {
  const { t } = useTranslation();
  return (
    <Outcome
      query={props.query}
      isEmpty={(d) => d.items.length === 0 && !d.next_page_token}
      empty={
        props.onClear ? (
          <Nothing text={t('state.no_match')}>
            <Button onClick={props.onClear}>{t('state.clear_filters')}</Button>
          </Nothing>
        ) : (
          <Nothing text={props.empty} />
        )
      }
    >
      {(d) => (
        <>
          <DataTable<T>
            label={props.label}
            rowKey="id"
            dataSource={d.items}
            pagination={false}
            loading={props.query.isPlaceholderData}
            columns={props.columns}
            expandable={props.expandable}
          />
          <Pager shown={d.items.length} page={props.page} next={d.next_page_token} onPage={props.onPage} />
        </>
      )}
    </Outcome>
  );
}
