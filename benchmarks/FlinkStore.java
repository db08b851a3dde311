import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.HighAvailabilityOptions;
import org.apache.flink.runtime.persistence.IntegerResourceVersion;
import org.apache.flink.runtime.persistence.RetrievableStateStorageHelper;
import org.apache.flink.runtime.util.ZooKeeperUtils;
import org.apache.flink.runtime.zookeeper.ZooKeeperStateHandleStore;

/**
 * Clients of Flink's own store of state handles, each a thread with a ZooKeeper session of its own.
 *
 * <p>Arguments: the address of ZooKeeper, a directory for the bytes of states, the number of clients, the bytes of a
 * state. Each line on standard input names a call and the seconds for which all clients repeat it; the answer is a line
 * with the number of calls and the seconds that they took.
 */
public final class FlinkStore {
  private static final String HELD = "held";

  private interface Call {
    void run() throws Exception;
  }

  private static final class Client {
    private final ZooKeeperStateHandleStore<byte[]> holder;
    private final ZooKeeperStateHandleStore<byte[]> reader;
    private final byte[] state;
    private final String held;
    private final String added;
    private long number;
    private int version;
    private boolean locked;

    Client(Configuration settings, int client, byte[] state) throws Exception {
      RetrievableStateStorageHelper<byte[]> states = ZooKeeperUtils.createFileSystemStateStorage(settings, "state");
      this.holder = store(settings, states);
      this.reader = store(settings, states);
      this.state = state;
      this.held = HELD + client;
      this.added = "added" + client + "-";
      this.holder.addAndLock(held, state);
      this.version = this.holder.exists(held).getValue();
    }

    private static ZooKeeperStateHandleStore<byte[]> store(
        Configuration settings, RetrievableStateStorageHelper<byte[]> states) throws Exception {
      return ZooKeeperUtils.createZooKeeperStateHandleStore(
          ZooKeeperUtils.startCuratorFramework(settings, error -> System.exit(1)).asCuratorFramework(),
          "/checkpoints",
          states);
    }

    Call call(String name) {
      switch (name) {
        case "add":
          return () -> holder.addAndLock(added + number++, state);
        case "replace":
          return () -> {
            holder.replace(held, IntegerResourceVersion.valueOf(version), state);
            version++; // ZooKeeper counts the changes of a node
          };
        case "getAndLock":
          return () -> reader.getAndLock(held);
        case "read":
          return () -> reader.getAndLock(held).retrieveState();
        case "lock":
          return () -> {
            if (locked) {
              reader.release(held);
            } else {
              reader.getAndLock(held);
            }
            locked = !locked;
          };
        case "exists":
          return () -> reader.exists(held);
        default:
          throw new IllegalArgumentException(name);
      }
    }
  }

  private FlinkStore() {}

  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    settings.set(HighAvailabilityOptions.HA_MODE, "zookeeper");
    settings.set(HighAvailabilityOptions.HA_ZOOKEEPER_QUORUM, arguments[0]);
    settings.set(HighAvailabilityOptions.HA_STORAGE_PATH, "file://" + arguments[1]);
    List<Client> clients = new ArrayList<>();
    for (int client = 0; client < Integer.parseInt(arguments[2]); client++) {
      clients.add(new Client(settings, client, new byte[Integer.parseInt(arguments[3])]));
    }
    ExecutorService threads = Executors.newFixedThreadPool(clients.size());
    System.out.println("ready");
    BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
    for (String line = asked.readLine(); line != null; line = asked.readLine()) {
      String[] words = line.split(" ");
      System.out.println(repeated(threads, clients, words[0], Double.parseDouble(words[1])));
    }
    System.exit(0);
  }

  private static String repeated(ExecutorService threads, List<Client> clients, String name, double seconds)
      throws Exception {
    long began = System.nanoTime();
    long end = began + (long) (seconds * 1e9);
    List<Future<Long>> counts = new ArrayList<>();
    for (Client client : clients) {
      Call call = client.call(name);
      counts.add(
          threads.submit(
              () -> {
                long count = 0;
                for (; System.nanoTime() < end; count++) {
                  call.run();
                }
                return count;
              }));
    }
    long total = 0;
    for (Future<Long> count : counts) {
      total += count.get();
    }
    return total + " " + (System.nanoTime() - began) / 1e9;
  }
}
