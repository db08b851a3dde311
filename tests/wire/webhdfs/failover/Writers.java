import java.io.IOException;
import java.net.URI;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;

/**
 * Hadoop clients that write as Spark does: a file under a temporary name, then a rename that must not overwrite.
 *
 * <p>Arguments: the URI of a directory, how many writers, then settings as name=value. Each writer is one thread with
 * clients of its own, which go on until standard input ends. A line is printed for each act: "put W N SIZE" once a file
 * is under its name, "won W N" and "beaten W N" for a name that all writers of a pair want, "failed W N WHY" if the
 * client gave up. "read PATH SIZE SEED" asks for a file on standard input; the answer is "whole PATH", or says why not.
 */
public final class Writers {
  private static final String TEMPORARY = ".tmp";

  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    for (int i = 2; i < arguments.length; i++) {
      int end = arguments[i].indexOf('=');
      settings.set(arguments[i].substring(0, end), arguments[i].substring(end + 1));
    }
    URI directory = URI.create(arguments[0]);
    int writers = Integer.parseInt(arguments[1]);
    CountDownLatch over = new CountDownLatch(1);
    CountDownLatch ended = new CountDownLatch(writers);
    for (int writer = 0; writer < writers; writer++) {
      int number = writer;
      Thread thread = new Thread(() -> {
        try {
          write(directory, settings, number, writers, over);
        } catch (Exception error) {
          say("broken " + number + " " + error);
        } finally {
          ended.countDown();
        }
      });
      thread.setDaemon(true);
      thread.start();
    }
    java.io.BufferedReader asked = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
    for (String line = asked.readLine(); line != null; line = asked.readLine()) {
      String[] words = line.split(" ");
      if (words[0].equals("end")) {
        over.countDown();
        say(ended.await(180, TimeUnit.SECONDS) ? "ended" : "stuck");
      } else {
        say(read(directory, settings, words[1], Integer.parseInt(words[2]), Long.parseLong(words[3])));
      }
    }
  }

  private static void write(URI directory, Configuration settings, int writer, int writers, CountDownLatch over)
      throws Exception {
    FileSystem files = FileSystem.newInstance(directory, settings);
    FileContext names = FileContext.getFileContext(directory, settings);
    Random random = new Random(writer);
    int pair = writer % (writers / 2);
    for (int number = 0; over.getCount() > 0; number++) {
      int size = random.nextInt(4) == 0 ? random.nextInt(300_000) : random.nextInt(5_000);
      try {
        Path own = new Path(directory.getPath(), "w" + writer + "/" + number);
        put(files, names, own, size, seed(writer, number));
        say("put " + writer + " " + number + " " + size);
      } catch (IOException error) {
        say("failed " + writer + " " + number + " " + reason(error));
      }
      try {
        put(files, names, new Path(directory.getPath(), "pair" + pair + "/" + number), 100, seed(writer, number));
        say("won " + writer + " " + number);
      } catch (org.apache.hadoop.fs.FileAlreadyExistsException error) {
        say("beaten " + writer + " " + number);
      } catch (IOException error) {
        say("failed " + writer + " " + number + " " + reason(error));
      }
    }
  }

  private static void put(FileSystem files, FileContext names, Path path, int size, long seed) throws IOException {
    Path temporary = new Path(path.getParent(), "." + path.getName() + "." + seed + TEMPORARY);
    byte[] content = content(size, seed);
    try (FSDataOutputStream out = files.create(temporary, true)) {
      out.write(content);
    }
    names.rename(temporary, path, Options.Rename.NONE);
  }

  private static String read(URI directory, Configuration settings, String path, int size, long seed) {
    try (FileSystem files = FileSystem.newInstance(directory, settings);
        FSDataInputStream in = files.open(new Path(directory.getPath(), path))) {
      byte[] found = in.readAllBytes();
      boolean whole = java.util.Arrays.equals(found, content(size, seed));
      return (whole ? "whole " : "other " + found.length + " bytes in ") + path;
    } catch (IOException error) {
      return "missing " + path + " " + reason(error);
    }
  }

  private static long seed(int writer, int number) {
    return writer * 1_000_000L + number;
  }

  private static byte[] content(int size, long seed) {
    byte[] content = new byte[size];
    new Random(seed).nextBytes(content);
    return content;
  }

  private static String reason(IOException error) {
    return error.toString().replace('\n', ' ');
  }

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }
}
